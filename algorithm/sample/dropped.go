package sample

import "github.com/trinity-go/trinity"

// dropped is what was left out of a batch: how many experiences, and how long their responses were, in tokens. Long ones are more often too old,
// because they took longer to sample.
type dropped struct {
	Count   int   `json:"count"`
	Tokens  int64 `json:"tokens"`
	Longest int   `json:"longest"`
	// Shortest is 0 where nothing was dropped.
	Shortest int `json:"shortest"`
}

func (d *dropped) add(e *trinity.Experience) {
	n := len(e.Tokens) - e.PromptLen
	if d.Count == 0 || n < d.Shortest {
		d.Shortest = n
	}
	d.Count, d.Tokens, d.Longest = d.Count+1, d.Tokens+int64(n), max(d.Longest, n)
}

// describe adds sample/stale_count and, where there are any, sample/stale_response_length/{mean,max,min}.
func (d *dropped) describe(m trinity.Metrics) {
	m["sample/stale_count"] = float64(d.Count)
	if d.Count == 0 {
		return
	}
	const length = "sample/stale_response_length/"
	m[length+"mean"], m[length+"max"], m[length+"min"] = float64(d.Tokens)/float64(d.Count), float64(d.Longest), float64(d.Shortest)
}
