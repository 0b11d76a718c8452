package trace

import (
	"errors"
	"io"

	"github.com/parquet-go/parquet-go"
)

// Answer is the rows of an experience in one: what the optimizer steps of the train step did to it, in
// order.
type Answer struct {
	Reward *float64 `json:"reward"` // nil without a valid reward
	Sequence
	Streams
	Updates []Updated `json:"updates"`
}

// Answers returns the experiences of a train step in the order of their first rows. An experience that
// is twice in a batch is two.
func Answers(rows []Row) (all []*Answer) {
	newest := map[string]*Answer{}
	for _, r := range rows {
		a := newest[r.ID]
		if a == nil || r.Update <= a.last() {
			a = &Answer{Reward: r.Reward, Sequence: r.Sequence, Streams: r.Streams}
			newest[r.ID] = a
			all = append(all, a)
		}
		if r.Update >= 0 {
			a.Updates = append(a.Updates, r.Updated)
		}
	}
	return all
}

// last returns the newest optimizer step that learned from the answer, −1 for none.
func (a *Answer) last() int64 {
	if len(a.Updates) == 0 {
		return -1
	}
	return a.Updates[len(a.Updates)-1].Update
}

// ReadAnswers reads what a list of a train step's experiences needs: of the streams only tokens, masks,
// advantages, log-probabilities before the update, and those that each optimizer step saw. A list of a
// step of long answers reads each of these columns alone, because whole rows take ten times as long.
func ReadAnswers(dir string, step int64) ([]*Answer, error) {
	type row struct {
		Reward *float64 `parquet:"reward,optional"`
		Sequence
		Update int64 `parquet:"update"`
	}
	var rows []Row
	err := openTable(StepFile(dir, step), &trainedForm, func(file *parquet.File) error {
		narrow, err := readRows[row](file)
		if err != nil {
			return err
		}
		rows = make([]Row, len(narrow))
		for i, r := range narrow {
			rows[i] = Row{Reward: r.Reward, Sequence: r.Sequence, Updated: Updated{Update: r.Update}}
		}
		return errors.Join(
			readList(file, "tokens", rows, func(r *Row, v parquet.Value) { r.Tokens = append(r.Tokens, v.Int32()) }),
			readList(file, "mask", rows, func(r *Row, v parquet.Value) { r.Mask = append(r.Mask, v.Boolean()) }),
			readList(file, "advantages", rows, func(r *Row, v parquet.Value) { r.Advantages = append(r.Advantages, v.Float()) }),
			readList(file, "logprobs", rows, func(r *Row, v parquet.Value) { r.Logprobs = append(r.Logprobs, v.Float()) }),
			readList(file, "old_logprobs", rows, func(r *Row, v parquet.Value) { r.OldLogprobs = append(r.OldLogprobs, v.Float()) }),
			readList(file, "now_logprobs", rows, func(r *Row, v parquet.Value) { r.Now = append(r.Now, v.Float()) }))
	}, parquet.SkipPageIndex(true))
	if err != nil {
		return nil, err
	}
	return Answers(rows), nil
}

// readList adds the numbers of a column of lists to its rows. A file may lack the column.
func readList(file *parquet.File, name string, rows []Row, add func(*Row, parquet.Value)) error {
	column, ok := file.Schema().Lookup(name, "list", "element")
	if !ok {
		return nil
	}
	at := -1
	var values [1024]parquet.Value
	read := func(page parquet.Page) error {
		defer parquet.Release(page)
		for in := page.Values(); ; {
			n, err := in.ReadValues(values[:])
			for _, v := range values[:n] {
				if v.RepetitionLevel() == 0 {
					at++
				}
				if at < 0 || at >= len(rows) {
					return errRows
				}
				if v.DefinitionLevel() == column.MaxDefinitionLevel {
					add(&rows[at], v)
				}
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil && n == 0 {
				err = io.ErrNoProgress
			}
			if err != nil {
				return err
			}
		}
	}
	for _, group := range file.RowGroups() {
		pages := group.ColumnChunks()[column.ColumnIndex].Pages()
		err := eachPage(pages, read)
		if err = errors.Join(err, pages.Close()); err != nil {
			return err
		}
	}
	if at+1 != len(rows) {
		return errRows
	}
	return nil
}

var errRows = errors.New("a list has another number of rows than the file")

func eachPage(pages parquet.Pages, visit func(parquet.Page) error) error {
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = visit(page)
		}
		if err != nil {
			return err
		}
	}
}
