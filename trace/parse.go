package trace

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/trinity-go/trinity"
)

// parseSpan reads a line of a file of spans. The form in which a [Writer] writes it is read fast,
// because a long run has millions; other JSON is decoded.
func parseSpan(line []byte, s *Span) error {
	if p := (parser{line, true}); p.span(s) {
		return nil
	}
	*s = Span{}
	return json.Unmarshal(line, s)
}

// parser reads the fields of a line in their order.
type parser struct {
	rest []byte
	ok   bool
}

// span reports whether the line has the form of a written span. s keeps its texts if they are the same.
func (p *parser) span(s *Span) bool {
	kind := string(s.Kind)
	p.text(`{"role":"`, &s.Role, true)
	p.text(`,"kind":"`, &kind, true)
	p.text(`,"name":"`, &s.Name, false)
	p.text(`,"for":"`, &s.For, false)
	p.number(`,"step":`, &s.Step, false)
	p.number(`,"version":`, &s.Version, false)
	p.text(`,"id":"`, &s.ID, false)
	p.number(`,"begin":`, &s.Begin, true)
	p.number(`,"end":`, &s.End, true)
	s.Kind = trinity.SpanKind(kind)
	return p.ok && string(p.rest) == "}\n"
}

// text reads a text behind a key. Without the key the text is "".
func (p *parser) text(key string, to *string, must bool) {
	rest, ok := bytes.CutPrefix(p.rest, []byte(key))
	if !ok {
		*to, p.ok = "", p.ok && !must
		return
	}
	end := bytes.IndexByte(rest, '"')
	if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 || !isPlain(rest[:end]) {
		p.ok = false
		return
	}
	if *to != string(rest[:end]) {
		*to = string(rest[:end])
	}
	p.rest = rest[end+1:]
}

// isPlain reports whether a text means itself in JSON, without a decoder's look at its characters.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c >= 0x80 {
			return false
		}
	}
	return true
}

// number reads a whole number behind a key. Without the key it is 0.
func (p *parser) number(key string, to *int64, must bool) {
	*to = 0
	rest, ok := bytes.CutPrefix(p.rest, []byte(key))
	if !ok {
		p.ok = p.ok && !must
		return
	}
	n := 0
	for n < len(rest) && (rest[n] == '-' && n == 0 || '0' <= rest[n] && rest[n] <= '9') {
		n++
	}
	v, err := strconv.ParseInt(string(rest[:n]), 10, 64)
	if err != nil {
		p.ok = false
	}
	*to, p.rest = v, rest[n:]
}
