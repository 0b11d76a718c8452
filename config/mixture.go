package config

import "fmt"

// mixture tells, for each of several training tasksets, its share of the tasks and how often a run
// reads each of its rows.
func (c *planner) mixture() []string {
	var sets []TasksetEntry
	sum, known := 0., true
	weight := func(t TasksetEntry) float64 {
		if t.Weight != nil {
			return *t.Weight
		}
		return float64(c.facts.Rows[t.Key])
	}
	for _, t := range c.Data.Tasksets {
		if t.Eval {
			continue
		}
		_, counted := c.facts.Rows[t.Key]
		sets, sum, known = append(sets, t), sum+weight(t), known && (counted || t.Weight != nil)
	}
	if len(sets) < 2 {
		return nil
	}
	steps, _ := c.exploreSteps()
	words := make([]string, len(sets))
	for i, t := range sets {
		rows, counted := c.facts.Rows[t.Key]
		switch share := weight(t) / sum; {
		case !known:
			words[i] = t.Name + ": a share that follows from numbers of rows that are not known yet"
		case !counted || steps == 0:
			words[i] = fmt.Sprintf("%s: %.1f %% of them", t.Name, 100*share)
		default:
			passes := share * float64(steps) * float64(c.Buffer.BatchSize) / float64(rows)
			words[i] = fmt.Sprintf("%s: %.1f %% of them, %.2f for each of its %d rows", t.Name, 100*share, passes, rows)
		}
	}
	return words
}
