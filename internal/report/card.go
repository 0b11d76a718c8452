package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
)

//go:embed card.md
var cardSource string

var cardPage = template.Must(template.New("card").Funcs(markdown).Parse(cardSource))

// CardFile is the name of a model card, which hubs show.
const CardFile = "README.md"

// Card describes a trained model or adapter to those who get it.
type Card struct {
	Name      string
	Library   string // that opens it: "transformers" or "peft"
	Scores    bool   // it is a reward model
	Base      Source // the model that training began with
	Trainings []Training
}

// Source is a model or a dataset.
type Source struct {
	Name  string // hub name or path
	OnHub bool
}

// String returns the name, without the directories of an absolute path.
func (s Source) String() string {
	if filepath.IsAbs(s.Name) {
		return filepath.Base(s.Name)
	}
	return s.Name
}

// IsGGUF reports whether the source is a GGUF file.
func (s Source) IsGGUF() bool { return strings.EqualFold(filepath.Ext(s.Name), ".gguf") }

// Training is a run, or a stage of one, up to the checkpoint with the model.
type Training struct {
	Dir       string // of the run or the stage
	Step      int64  // of the checkpoint
	Algorithm string
	Seed      string
	Data      []Source

	Title    string // set by WriteFile, as are the following
	System   string // system prompt of all rows that have none; "" if there is none
	Table    []row
	Settings string
}

// WriteFile writes the card into the directory of the model.
func (c *Card) WriteFile(dir string) error {
	for i := range c.Trainings {
		t := &c.Trainings[i]
		t.Title = "Training"
		if len(c.Trainings) > 1 {
			t.Title += ": " + filepath.Base(t.Dir)
		}
		if err := t.read(); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err := cardPage.Execute(&b, c); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, CardFile), b.Bytes())
}

// read reads what the run recorded up to the checkpoint. A run may have no records.
func (t *Training) read() error {
	if _, err := os.Stat(filepath.Join(t.Dir, rundir.Monitor)); err != nil {
		return nil // the checkpoint was moved away from its run
	}
	r, err := read(t.Dir, rundir.ReadTable, isShown)
	if errors.Is(err, ErrNoRecords) {
		return nil
	} else if err != nil {
		return err
	}
	i := slices.IndexFunc(r.stages, func(s stage) bool { return s.name == "" })
	if i < 0 {
		return nil
	}
	s := &r.stages[i]
	s.until = t.Step
	var sec section
	sec.draw([]*group{{Runs: []*run{r}}})
	t.Table = sec.Table
	for _, data := range []string{"buffer.explorer_input.taskset", "buffer.trainer_input.experience_buffer"} {
		if text, ok := s.settings[data+".format.system_prompt"].(string); ok {
			t.System = cmp.Or(t.System, strings.TrimSpace(text))
		}
	}
	t.Settings, err = public(s.config)
	return err
}

// HubData returns the datasets that are on a hub.
func (c *Card) HubData() (names []string) {
	for _, t := range c.Trainings {
		for _, d := range t.Data {
			if d.OnHub && !slices.Contains(names, d.Name) {
				names = append(names, d.Name)
			}
		}
	}
	return names
}

// Tags returns the algorithms.
func (c *Card) Tags() (tags []string) {
	for _, t := range c.Trainings {
		if !slices.Contains(tags, t.Algorithm) {
			tags = append(tags, t.Algorithm)
		}
	}
	return tags
}
