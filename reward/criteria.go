package reward

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/trinity-go/trinity"
)

// criterion is what a reply should meet.
type criterion struct {
	Criterion   string   `yaml:"criterion" json:"criterion"`
	Description string   `yaml:"description" json:"description"` // another name of Criterion
	Weight      *float64 `yaml:"weight" json:"weight"`           // nil is 1
}

// complete sets the default weights.
func complete(all []criterion) error {
	positive := len(all) == 0
	for i := range all {
		c := &all[i]
		if c.Weight == nil {
			c.Weight = new(1.0)
		}
		if c.Criterion == "" {
			c.Criterion = c.Description
		}
		if *c.Weight == 0 || math.IsInf(*c.Weight, 0) || math.IsNaN(*c.Weight) || c.Criterion == "" {
			return fmt.Errorf(".%d: want a criterion and a weight other than 0", i)
		}
		positive = positive || *c.Weight > 0
	}
	if !positive {
		return errors.New(": none has a weight above 0")
	}
	return nil
}

// criteria returns the criteria for the replies to a task, which may be nil unless the row has them.
func (j *judgeReward) criteria(t *trinity.Task) (all []criterion, err error) {
	if j.CriteriaKey == "" {
		return j.Criteria, nil
	}
	if t == nil {
		return nil, fmt.Errorf("criteria_key: there is no row with a column %q", j.CriteriaKey)
	}
	list, _ := t.Field(j.CriteriaKey)
	text, err := json.Marshal(list)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all) == 0 {
		return nil, fmt.Errorf("criteria_key: column %q has no list of criteria, such as [{criterion: it names its source}]", j.CriteriaKey)
	}
	if err := complete(all); err != nil {
		return nil, fmt.Errorf("column %q%w", j.CriteriaKey, err)
	}
	return all, nil
}

// written numbers the criteria for a judge.
func written(all []criterion, weights bool) string {
	var b strings.Builder
	for i, c := range all {
		fmt.Fprintf(&b, "%d. ", i+1)
		if weights {
			fmt.Fprintf(&b, "(weight %g) ", *c.Weight)
		}
		b.WriteString(c.Criterion + "\n")
	}
	return b.String()
}

// met returns the weighted share of the criteria that a reply meets, and whether it meets each.
func met(all []criterion, verdicts []bool) (map[string]float64, error) {
	if len(verdicts) != len(all) {
		return nil, fmt.Errorf("the answer judges %d criteria, want %d", len(verdicts), len(all))
	}
	parts, sum, most := map[string]float64{}, 0.0, 0.0
	for i, c := range all {
		v := 0.0
		if verdicts[i] {
			v = 1
		}
		parts[fmt.Sprintf("criterion_%d", i+1)] = v
		sum, most = sum+v**c.Weight, most+max(0, *c.Weight)
	}
	parts["judge"] = max(0, sum/most)
	return parts, nil
}
