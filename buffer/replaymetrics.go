package buffer

import "github.com/trinity-go/trinity"

// replayMetrics counts the experiences that Take has given.
type replayMetrics struct {
	given, uses         int // experiences, and the sum of their uses
	mostUsed, leastUsed int
	evicted, expired    int // experiences dropped because the buffer was full, or because of their age
}

// used counts n experiences that Take gave for the uses-th time.
func (m *replayMetrics) used(uses, n int) {
	if m.given == 0 {
		m.leastUsed = uses
	}
	m.given += n
	m.uses += uses * n
	m.mostUsed, m.leastUsed = max(m.mostUsed, uses), min(m.leastUsed, uses)
}

// add adds the counts of others.
func (m *replayMetrics) add(others replayMetrics) {
	if m.given == 0 {
		m.leastUsed = others.leastUsed
	} else if others.given > 0 {
		m.leastUsed = min(m.leastUsed, others.leastUsed)
	}
	m.given, m.uses, m.mostUsed = m.given+others.given, m.uses+others.uses, max(m.mostUsed, others.mostUsed)
	m.evicted, m.expired = m.evicted+others.evicted, m.expired+others.expired
}

func (m *replayMetrics) metrics() trinity.Metrics {
	out := trinity.Metrics{"sample/evicted_count": float64(m.evicted), "sample/expired_count": float64(m.expired)}
	if m.given > 0 {
		const use = "sample/use_count/"
		out[use+"mean"], out[use+"max"], out[use+"min"] = float64(m.uses)/float64(m.given), float64(m.mostUsed), float64(m.leastUsed)
	}
	return out
}
