package rundir

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// record is a line of [MetricsFile].
type record struct {
	Step    int64             `json:"step"`
	Role    string            `json:"role"`
	Time    string            `json:"time"`
	Metrics map[string]Number `json:"metrics"`
	Samples []trinity.Sample  `json:"samples,omitempty"`
}

// Number is a number that JSON may not have: NaN and the infinities are the texts "NaN", "Infinity" and
// "-Infinity".
type Number float64

// MarshalJSON implements [json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) {
	if word := experience.NotFinite(float64(n)); word != "" {
		return json.Marshal(word)
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Number) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	*n = Number(f)
	return err
}

// Numbers returns metrics as JSON has them.
func Numbers(m trinity.Metrics) map[string]Number {
	all := make(map[string]Number, len(m))
	for name, v := range m {
		all[name] = Number(v)
	}
	return all
}

// Line returns a record as a line of [MetricsFile]. Its metrics are in the order of their names.
func Line(r trinity.Record) ([]byte, error) {
	at := r.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	line, err := json.Marshal(record{r.Step, r.Role, at, Numbers(r.Metrics), r.Samples})
	return append(line, '\n'), err
}

// Parse returns the record of a line of [MetricsFile].
func Parse(line []byte) (rec trinity.Record, err error) {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return rec, err
	}
	rec = trinity.Record{Step: r.Step, Role: r.Role, Metrics: trinity.Metrics{}, Samples: r.Samples}
	if r.Time != "" {
		if rec.Time, err = time.Parse(time.RFC3339, r.Time); err != nil {
			return rec, err
		}
	}
	for name, v := range r.Metrics {
		rec.Metrics[name] = float64(v)
	}
	return rec, nil
}
