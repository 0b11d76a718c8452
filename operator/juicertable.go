package operator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
)

// juicerRow is an experience as a row of Trinity-RFT's table. Columns of tokens leave out the
// prompt.
type juicerRow struct {
	ID         juicerID           `json:"eid"`
	Tokens     []int32            `json:"tokens,omitempty"`
	PromptLen  int                `json:"prompt_length"`
	Logprobs   []float32          `json:"logprobs,omitempty"`
	Mask       []bool             `json:"action_mask,omitempty"`
	Reward     *float64           `json:"reward"`
	Prompt     string             `json:"prompt_text"`
	Response   string             `json:"response_text"`
	Info       map[string]float64 `json:"info,omitempty"`
	Metrics    map[string]float64 `json:"metrics,omitempty"`
	Statistics map[string]any     `json:"__dj__stats__,omitempty"` // only in an answer
}

// juicerID tells experiences apart; Suffix is the number of the experience in the step.
type juicerID struct {
	Batch  int64  `json:"batch"`
	Task   int    `json:"task"`
	Run    int    `json:"run"`
	Step   int    `json:"step"`
	Suffix string `json:"suffix"`
}

// index returns the number in the step of the row's experience; n is the number of experiences.
func (r *juicerRow) index(n int) (int, error) {
	i, err := strconv.Atoi(r.ID.Suffix)
	if err != nil || i < 0 || i >= n {
		return 0, fmt.Errorf("eid.suffix %q is not one of the %d experiences of the step", r.ID.Suffix, n)
	}
	return i, nil
}

// stats returns the statistics that Data-Juicer has measured.
func (r *juicerRow) stats() map[string]any {
	stats := maps.Clone(r.Statistics)
	maps.DeleteFunc(stats, func(_ string, v any) bool { return v == nil })
	return stats
}

// juicerTable encodes a step as an Arrow IPC stream.
func juicerTable(groups []trinity.Group) ([]byte, error) {
	var rows []juicerRow
	infos, metrics := map[string]bool{}, map[string]bool{}
	for i, g := range groups {
		for _, e := range g {
			r := juicerRow{
				ID:     juicerID{e.ID.Step, i, e.ID.Run, e.ID.Turn, strconv.Itoa(len(rows))},
				Tokens: e.Tokens, PromptLen: e.PromptLen, Mask: e.Mask[e.PromptLen:], Prompt: e.Prompt, Response: e.Response,
				Info: numbers(e.Info), Metrics: maps.Clone(e.Metrics),
			}
			maps.DeleteFunc(r.Metrics, func(_ string, v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
			if e.Logprobs != nil {
				r.Logprobs = e.Logprobs[e.PromptLen:]
			}
			if scored(e) {
				r.Reward = &e.Reward.Value
			}
			note(infos, r.Info)
			note(metrics, r.Metrics)
			rows = append(rows, r)
		}
	}
	data, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	schema := juicerSchema(infos, metrics)
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	defer batch.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	err = errors.Join(w.Write(batch), w.Close())
	return out.Bytes(), err
}

func note(names map[string]bool, values map[string]float64) {
	for name := range values {
		names[name] = true
	}
}

// numbers returns the finite numbers of an experience's info.
func numbers(info map[string]any) map[string]float64 {
	out := map[string]float64{}
	for name, v := range info {
		switch v := v.(type) {
		case int:
			out[name] = float64(v)
		case int64:
			out[name] = float64(v)
		case float64:
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				out[name] = v
			}
		}
	}
	return out
}

// juicerSchema has the columns info and metrics only if they have fields: other implementations of
// Arrow refuse a struct without fields.
func juicerSchema(infos, metrics map[string]bool) *arrow.Schema {
	nullable := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	integer := arrow.PrimitiveTypes.Int64
	fields := []arrow.Field{
		nullable("eid", arrow.StructOf(nullable("batch", integer), nullable("task", integer), nullable("run", integer), nullable("step", integer),
			nullable("suffix", arrow.BinaryTypes.String))),
		nullable("tokens", arrow.ListOf(arrow.PrimitiveTypes.Int32)), nullable("prompt_length", integer),
		nullable("logprobs", arrow.ListOf(arrow.PrimitiveTypes.Float32)),
		nullable("action_mask", arrow.ListOf(arrow.FixedWidthTypes.Boolean)), nullable("reward", arrow.PrimitiveTypes.Float64),
		nullable("prompt_text", arrow.BinaryTypes.String), nullable("response_text", arrow.BinaryTypes.String),
	}
	for _, s := range []struct {
		name  string
		names map[string]bool
	}{{"info", infos}, {"metrics", metrics}} {
		var of []arrow.Field
		for _, name := range slices.Sorted(maps.Keys(s.names)) {
			of = append(of, nullable(name, arrow.PrimitiveTypes.Float64))
		}
		if len(of) > 0 {
			fields = append(fields, nullable(s.name, arrow.StructOf(of...)))
		}
	}
	return arrow.NewSchema(fields, nil)
}

// juicerRows reads identity, reward and statistics from the table that comes back.
func juicerRows(ctx context.Context, table []byte) (rows []juicerRow, err error) {
	err = juicerDecoder.Run(ctx, bytes.NewReader(table), func(out io.Reader) error {
		batches := json.NewDecoder(out)
		for {
			var batch []juicerRow
			err := batches.Decode(&batch)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if rows = append(rows, batch...); err != nil || len(rows) > maxAnswer/16 {
				return cmp.Or(err, errors.New("too many rows"))
			}
		}
	})
	return rows, err
}

// juicerDecoder writes a JSON array for each batch of rows, in a child process, because the Arrow package
// allocates what a damaged table says.
var juicerDecoder = process.Confine("juicer", func(in *io.SectionReader, out io.Writer) error {
	r, err := ipc.NewReader(in, ipc.WithBodySizeLimit(in.Size()), ipc.WithMetadataSizeLimit(in.Size()))
	if err != nil {
		return err
	}
	for {
		batch, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := writeBatch(out, batch); err != nil {
			return err
		}
	}
})

// writeBatch writes the columns of identity, reward and statistics.
func writeBatch(out io.Writer, batch arrow.RecordBatch) error {
	var fields []arrow.Field
	var columns []arrow.Array
	for i, f := range batch.Schema().Fields() {
		if f.Name == "eid" || f.Name == "reward" || f.Name == "__dj__stats__" {
			fields, columns = append(fields, f), append(columns, batch.Column(i))
		}
	}
	few := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, batch.NumRows())
	data, err := few.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	return err
}
