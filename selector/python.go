package selector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
)

func init() {
	Selectors.Register("python",
		"A selector of yours in Python: a class of Trinity-RFT (BaseSelector). selector_type: my.module.Selector names it as well; "+
			"kwargs, seed and feature_keys are then in its config. Its data_source has dataset_size, and dataset with the columns of "+
			"feature_keys. get_indices chooses the rows of a batch, feedback learns from mean rewards of rows, and state_dict and "+
			"load_state_dict make a run resume: the state must be JSON. The section python of the configuration says which Python "+
			"runs it, with the rights of the run; what it prints goes to plugins.log.",
		func() Selector { return &pythonSelector{Timeout: 60, Python: bridge.DefaultPlugins()} })
	Selectors.Elsewhere("python", "class")
}

// pythonSelector asks a class in a process of Python. Each answer brings the state of the class back. If a process ends,
// the next one starts from that state.
type pythonSelector struct {
	Class   string         `yaml:"class" required:"name a class, such as my.module.Selector" doc:"package.module.Name, or file.py:Name"`
	Args    map[string]any `yaml:"args" doc:"kwargs of the class, and seed and feature_keys"`
	Timeout float64        `yaml:"timeout" range:"(0,inf]" doc:"seconds for a batch, besides those for imports (python.start_timeout)"`
	Python  bridge.Plugins `yaml:"python" doc:"the section python, if it is another for this class"`

	host     trinity.Host
	data     Dataset
	memory   bridge.Memory
	feedback []map[int]float64 // that the class has not had
}

// Validate checks that the class is a selector.
func (p *pythonSelector) Validate() error {
	_, err := p.Python.Check("selector", p.Class, &p.Args)
	return err
}

// Open gives the selector what a run offers.
func (p *pythonSelector) Open(host trinity.Host) error {
	p.host = host
	return nil
}

// Start implements [Selector].
func (p *pythonSelector) Start(d Dataset) error {
	if d.Len() == 0 {
		return errors.New("the dataset has no rows")
	}
	p.data, p.memory = d, bridge.Memory{}
	return nil
}

// Next implements [Selector].
func (p *pythonSelector) Next(n int) ([]int, error) {
	if n < 0 {
		return nil, fmt.Errorf("cannot select a batch of %d rows", n)
	}
	rows, err := p.ask(&n)
	if err != nil {
		return nil, err
	}
	if len(rows) != n {
		return nil, fmt.Errorf("selector %s returned %d rows for a batch of %d", p.Class, len(rows), n)
	}
	for _, row := range rows {
		if row < 0 || row >= p.data.Len() {
			return nil, fmt.Errorf("selector %s returned row %d of a dataset of %d rows", p.Class, row, p.data.Len())
		}
	}
	return rows, nil
}

// Feedback implements [Selector]. The class has it with the next question.
func (p *pythonSelector) Feedback(rewards map[int]float64) { p.feedback = append(p.feedback, rewards) }

// pythonState is the state of a selector in a checkpoint.
type pythonState struct {
	Rows  int             `json:"rows"`
	State json.RawMessage `json:"state"`
}

// State implements [Selector].
func (p *pythonSelector) State() (json.RawMessage, error) {
	if p.memory.State() == nil || len(p.feedback) > 0 {
		if _, err := p.ask(nil); err != nil {
			return nil, err
		}
	}
	return json.Marshal(pythonState{p.data.Len(), p.memory.State()})
}

// Restore implements [Selector]. It refuses the state of a dataset with another number of rows.
func (p *pythonSelector) Restore(state json.RawMessage) error {
	var s pythonState
	if err := json.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("selector state: %w", err)
	}
	if p.data == nil || s.Rows != p.data.Len() || s.State == nil {
		return fmt.Errorf("selector state: the saved dataset had %d rows: resume with the same data, or start a new run", s.Rows)
	}
	p.memory.Set(s.State)
	p.feedback = nil
	_, err := p.ask(nil) // the class may refuse it
	return err
}

// ask asks for the rows of a batch, or for the state alone. The class is made, where the process has none of this state,
// with the columns that it reads.
func (p *pythonSelector) ask(batch *int) ([]int, error) {
	if p.host == nil || p.data == nil {
		return nil, fmt.Errorf("selector %s: only a run can start Python", p.Class)
	}
	body := map[string]any{
		"args": p.Args, "rows": p.data.Len(), "batch": batch, "feedback": p.told(),
	}
	var answer struct {
		Wants []string // columns, without which there is no answer
		Rows  []int
	}
	for range 2 {
		question := bridge.Question{Do: "select", Name: p.Class, Body: body, Memory: &p.memory, Timeout: p.Timeout}
		if err := p.Python.Ask(context.Background(), p.host, question, &answer); err != nil {
			return nil, fmt.Errorf("selector %s: %w", p.Class, err)
		}
		if answer.Wants == nil {
			break
		}
		columns, err := p.columns(answer.Wants)
		if err != nil {
			return nil, err
		}
		body["columns"], answer.Wants = columns, nil
	}
	p.feedback = nil
	return answer.Rows, nil
}

// told returns what the class has not had, as lists of rows and values.
func (p *pythonSelector) told() [][2]any {
	all := [][2]any{}
	for _, rewards := range p.feedback {
		rows, values := slices.AppendSeq([]int{}, maps.Keys(rewards)), []float64{}
		slices.Sort(rows)
		for _, row := range rows {
			values = append(values, rewards[row])
		}
		all = append(all, [2]any{rows, values})
	}
	return all
}

// columns reads columns of the dataset. A row without one has nothing there; one that no row has is an error.
func (p *pythonSelector) columns(names []string) (map[string][]any, error) {
	columns, found, others := map[string][]any{}, map[string]bool{}, map[string]bool{}
	for i := range p.data.Len() {
		row, err := p.data.Row(i)
		if err != nil {
			return nil, err
		}
		for name := range row {
			others[name] = true
		}
		task := trinity.Task{Row: row}
		for _, name := range names {
			value, has := task.Field(name) // dots lead into nested objects
			columns[name], found[name] = append(columns[name], value), found[name] || has
		}
	}
	for _, name := range names {
		if !found[name] {
			return nil, fmt.Errorf("selector %s: no row has the column %s, which feature_keys names: the rows have %s",
				p.Class, name, strings.Join(slices.Sorted(maps.Keys(others)), ", "))
		}
	}
	return columns, nil
}
