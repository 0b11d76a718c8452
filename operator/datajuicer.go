package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/operator/datajuicer"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("data_juicer",
		"Edits a step with operators of Data-Juicer. The section service.data_juicer says where its service "+
			"runs. The service gets a table with the columns of Trinity-RFT: prompt_text, response_text, reward, "+
			"tokens, info, metrics and so on. Of info it gets the keys that hold a number in every experience "+
			"that has them. An experience stays if its row comes back. Its info then has every statistic of the "+
			"row, and its reward is the row's reward. Texts, tokens and masks stay as they were sampled. "+
			"Metrics: filtered_count, reward_diff/{mean,max,min}, and the metrics of the service.",
		func() trinity.Operator { return &dataJuicer{Processes: 4, Timeout: 3600} })
}

// dataJuicer sends each step to Data-Juicer. Unlike Trinity-RFT: texts, tokens and masks stay as
// they were sampled, because the policy did not sample the text that an operator writes.
type dataJuicer struct {
	ConfigPath string                      `yaml:"config_path" doc:"recipe of Data-Juicer, on the service's machine; overrides operators"`
	Operators  []map[string]map[string]any `yaml:"operators" doc:"a list of operators, each a name with its arguments"`
	Processes  int                         `yaml:"np" range:"[1,)" doc:"processes of Data-Juicer"`
	Timeout    float64                     `yaml:"timeout" range:"(0,inf]" doc:"seconds for one step"`

	service *datajuicer.Service
	session *datajuicer.Session
}

// Validate requires operators.
func (d *dataJuicer) Validate() error {
	switch {
	case d.ConfigPath == "" && len(d.Operators) == 0:
		return errors.New("set config_path or operators")
	}
	for i, o := range d.Operators {
		if len(o) != 1 {
			return fmt.Errorf("operators.%d has %d names: want one operator with its arguments", i, len(o))
		}
	}
	return nil
}

// UseService implements datajuicer.User.
func (d *dataJuicer) UseService(s *datajuicer.Service) { d.service = s }

// Process implements trinity.Operator.
func (d *dataJuicer) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	if len(groups) == 0 {
		return nil, nil, ctx.Err()
	}
	late := fmt.Errorf("no answer within timeout = %g s", d.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, wait.Seconds(d.Timeout), late)
	defer cancel()
	if d.session == nil {
		var err error
		settings := datajuicer.Settings{Type: "experience", Operators: d.Operators, ConfigPath: d.ConfigPath, Processes: d.Processes}
		if d.session, err = d.service.Open(ctx, settings); err != nil {
			return nil, nil, err
		}
	}
	table, err := juicerTable(groups)
	if err != nil {
		return nil, nil, err
	}
	left, said, err := d.session.ProcessExperience(ctx, table)
	if err != nil {
		return nil, nil, err
	}
	rows, err := juicerRows(ctx, left)
	if err != nil {
		return nil, nil, fmt.Errorf("Data-Juicer's answer: %w", err)
	}
	kept, metrics, err := edited(groups, rows)
	for name, v := range said {
		if n, ok := v.(float64); ok {
			metrics[name] = n
		}
	}
	return kept, metrics, err
}

// edited keeps the experiences with a row in the answer, and applies the row's changes.
func edited(groups []trinity.Group, rows []juicerRow) ([]trinity.Group, trinity.Metrics, error) {
	var all trinity.Group
	for _, g := range groups {
		all = append(all, g...)
	}
	answered := selection{}
	var diffs []float64
	for _, r := range rows {
		i, err := r.index(len(all))
		if err != nil {
			return nil, nil, fmt.Errorf("Data-Juicer's answer: %w", err)
		}
		e := all[i]
		if answered[e] {
			return nil, nil, fmt.Errorf("Data-Juicer's answer has two rows for experience %s: remove the operator that multiplies rows", e.ID)
		}
		answered[e] = true
		if stats := r.stats(); len(stats) > 0 {
			info := maps.Clone(e.Info) // siblings may share it
			if info == nil {
				info = map[string]any{}
			}
			maps.Copy(info, stats)
			e.Info = info
		}
		if scored(e) && r.Reward != nil {
			diffs = append(diffs, *r.Reward-e.Reward.Value)
			e.Reward.Value = *r.Reward
		}
	}
	kept, metrics := keep(groups, answered.has)
	summarize(metrics, "reward_diff", diffs)
	return kept, metrics, nil
}
