package sample

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience/ledger"
)

// dropped notes the experiences that a strategy dropped from a batch, and the lengths of their
// responses in tokens. Long responses are too old more often, because they take longer to sample.
type dropped struct {
	Count    int   `json:"count"`
	Tokens   int64 `json:"tokens"`
	Longest  int   `json:"longest"`
	Shortest int   `json:"shortest"` // 0 if nothing was dropped

	IDs ledger.IDs `json:"ids,omitempty"`
}

func (d *dropped) add(e *trinity.Experience) {
	n := e.ResponseLen()
	if d.Count == 0 || n < d.Shortest {
		d.Shortest = n
	}
	d.IDs = append(d.IDs, e.ID)
	d.Count, d.Tokens, d.Longest = d.Count+1, d.Tokens+int64(n), max(d.Longest, n)
}

// describe adds sample/stale_count and, if it is not 0,
// sample/stale_response_length/{mean,max,min}.
func (d *dropped) describe(m trinity.Metrics) {
	m["sample/stale_count"] = float64(d.Count)
	if d.Count == 0 {
		return
	}
	const length = "sample/stale_response_length/"
	m[length+"mean"], m[length+"max"], m[length+"min"] = float64(d.Tokens)/float64(d.Count), float64(d.Longest), float64(d.Shortest)
}
