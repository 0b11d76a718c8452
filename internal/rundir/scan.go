package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"
)

// Head is what a line of metrics.jsonl says beside its metrics.
type Head struct {
	Step int64
	Role []byte
	Time int64 // ms since 1970; 0 if unknown
}

var errLine = errors.New("its form is another one")

// Pair is a metric as a line has it.
type Pair struct{ Name, Value []byte }

// Scan returns what a line of metrics.jsonl says, with its metrics in place of pairs. It reads the form
// that the jsonl monitor writes without decoding the values, and other JSON as [Parse] does.
func Scan(line []byte, pairs []Pair) (Head, []Pair, error) {
	if h, metrics, ok := headOf(line); ok {
		if pairs, ok = split(metrics, pairs[:0]); ok {
			return h, pairs, nil
		}
	}
	pairs = pairs[:0]
	r, err := Parse(line)
	if err != nil || !json.Valid(line) {
		return Head{}, pairs, errLine
	}
	h := Head{Step: r.Step, Role: []byte(r.Role)}
	if !r.Time.IsZero() {
		h.Time = r.Time.UnixMilli()
	}
	for name, v := range r.Metrics {
		pairs = append(pairs, Pair{[]byte(name), strconv.AppendFloat(nil, v, 'g', -1, 64)})
	}
	return h, pairs, nil
}

// headOf cuts a line {"step":1,"role":"trainer","time":"…","metrics":{…},…} into what comes before the
// metrics and what begins with them. ok is false for a line of another form.
func headOf(line []byte) (h Head, metrics []byte, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"step":`))
	if !ok {
		return h, nil, false
	}
	digits := bytes.IndexByte(rest[:min(len(rest), 21)], ',')
	if digits < 0 {
		return h, nil, false
	}
	var err error
	if h.Step, err = strconv.ParseInt(string(rest[:digits]), 10, 64); err != nil {
		return h, nil, false
	}
	if h.Role, rest, ok = quoted(rest[digits:], `,"role":"`); !ok {
		return h, nil, false
	}
	at, rest, ok := quoted(rest, `,"time":"`)
	if !ok || len(at) > 40 {
		return h, nil, false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`,"metrics":{`)); !ok {
		return h, nil, false
	}
	if h.Time, ok = millis(at); !ok {
		return h, nil, false
	}
	end := bytes.TrimRight(rest, "\r\n")
	return h, rest, bytes.HasSuffix(end, []byte("}"))
}

// quoted cuts a text without escapes out of b, which begins with a key and a quote.
func quoted(b []byte, key string) (text, rest []byte, ok bool) {
	if b, ok = bytes.CutPrefix(b, []byte(key)); !ok {
		return nil, nil, false
	}
	end := bytes.IndexByte(b, '"')
	if end < 0 || bytes.IndexByte(b[:end], '\\') >= 0 {
		return nil, nil, false
	}
	return b[:end], b[end+1:], true
}

// millis returns a time of RFC 3339 in ms since 1970.
func millis(text []byte) (ms int64, ok bool) {
	const form = "0000-00-00T00:00:00.000Z" // of the jsonl monitor; other times take longer
	if len(text) == len(form) {
		var n [7]int // year, month, day, hour, minute, second, millisecond
		field, ok := 0, true
		for i, c := range text {
			if form[i] != '0' {
				field, ok = field+1, ok && c == form[i]
				continue
			}
			n[field], ok = 10*n[field]+int(c-'0'), ok && '0' <= c && c <= '9'
		}
		if ok && 1 <= n[1] && n[1] <= 12 && 1 <= n[2] && n[2] <= 28 && n[3] < 24 && n[4] < 60 && n[5] < 60 {
			return time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], n[6]*1e6, time.UTC).UnixMilli(), true
		}
	}
	t, err := time.Parse(time.RFC3339, string(text))
	return t.UnixMilli(), err == nil
}

// maxValue is the length of the longest number or word that the jsonl monitor writes, and more.
const maxValue = 40

// split appends the metrics of an object, which lacks its first brace. It reads what the jsonl monitor
// writes: names without escapes, and values that are numbers or words. ok is false for anything else.
func split(b []byte, pairs []Pair) (_ []Pair, ok bool) {
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
		pairs = append(pairs, Pair{name, b[:n]})
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

// ValueOf returns the number of a metric, NaN or infinite if its word says so.
func ValueOf(value []byte) (float64, bool) {
	v, err := strconv.ParseFloat(string(bytes.Trim(value, `"`)), 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}
