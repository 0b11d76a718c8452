package studio

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/trinity-go/trinity/monitor"
)

// head is what a line of metrics.jsonl says beside its metrics.
type head struct {
	step int64
	role []byte
	time int64 // ms since 1970; 0 if unknown
}

var errLine = errors.New("no record of the jsonl monitor")

// pair is a metric as a line has it.
type pair struct{ name, value []byte }

// scan returns what a line of metrics.jsonl says, with its metrics in place of pairs. It reads the form
// that the jsonl monitor writes without decoding the values, and other JSON as [monitor.Parse] does.
func scan(line []byte, pairs []pair) (head, []pair, error) {
	if h, metrics, ok := headOf(line); ok {
		if pairs, ok = split(metrics, pairs[:0]); ok {
			return h, pairs, nil
		}
	}
	pairs = pairs[:0]
	r, err := monitor.Parse(line)
	if err != nil || !json.Valid(line) {
		return head{}, pairs, errLine
	}
	h := head{step: r.Step, role: []byte(r.Role)}
	if !r.Time.IsZero() {
		h.time = r.Time.UnixMilli()
	}
	for name, v := range r.Metrics {
		pairs = append(pairs, pair{[]byte(name), strconv.AppendFloat(nil, v, 'g', -1, 64)})
	}
	return h, pairs, nil
}

// headOf cuts a line {"step":1,"role":"trainer","time":"…","metrics":{…},…} into what comes before the
// metrics and what begins with them. ok is false for a line of another form.
func headOf(line []byte) (h head, metrics []byte, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"step":`))
	number, rest, found := bytes.Cut(rest, []byte(`,"role":"`))
	if !ok || !found || len(number) > 20 {
		return h, nil, false
	}
	var err error
	if h.step, err = strconv.ParseInt(string(number), 10, 64); err != nil {
		return h, nil, false
	}
	role, rest, found := bytes.Cut(rest, []byte(`","time":"`))
	if !found || bytes.ContainsAny(role, "\"\\") {
		return h, nil, false
	}
	h.role = role
	at, rest, found := bytes.Cut(rest, []byte(`","metrics":{`))
	if !found || len(at) > 40 {
		return h, nil, false
	}
	t, err := time.Parse(time.RFC3339, string(at))
	if err != nil {
		return h, nil, false
	}
	h.time = t.UnixMilli()
	end := bytes.TrimRight(rest, "\r\n")
	return h, rest, bytes.HasSuffix(end, []byte("}"))
}

// maxValue is the length of the longest number or word that the jsonl monitor writes, and more.
const maxValue = 40

// split appends the metrics of an object, without its first brace. ok is false if their form is not
// that of the jsonl monitor: names without escapes, and values that are numbers or words.
func split(b []byte, pairs []pair) (_ []pair, ok bool) {
	if len(b) > 0 && b[0] == '}' {
		return pairs, true
	}
	for len(b) > 0 && b[0] == '"' {
		end := bytes.IndexByte(b[1:], '"') + 1
		if end == 0 || end+2 >= len(b) || b[end+1] != ':' {
			return pairs, false
		}
		name := b[1:end]
		b = b[end+2:]
		n := bytes.IndexByte(b[:min(len(b), maxValue)], ',')
		isLast := n < 0 || n > 0 && b[n-1] == '}'
		if isLast {
			n = bytes.IndexByte(b[:min(len(b), maxValue)], '}')
		}
		if n <= 0 || !isValue(b[:n]) || bytes.IndexByte(name, '\\') >= 0 {
			return pairs, false
		}
		pairs = append(pairs, pair{name, b[:n]})
		if isLast {
			return pairs, true
		}
		b = b[n+1:]
	}
	return pairs, false
}

// isValue reports whether text begins and ends as a number or a word does.
func isValue(text []byte) bool {
	first, last := text[0], text[len(text)-1]
	if first == '"' {
		return last == '"' && len(text) > 2
	}
	return (first == '-' || '0' <= first && first <= '9') && '0' <= last && last <= '9'
}

// valueOf returns the number of a metric, NaN or infinite if its word says so.
func valueOf(value []byte) (float64, bool) {
	v, err := strconv.ParseFloat(string(bytes.Trim(value, `"`)), 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}
