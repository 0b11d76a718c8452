package trace

import (
	"bytes"
	"encoding/json"

	"github.com/trinity-go/trinity"
)

// parseSpan reads a line of a file of spans. The form in which a [Writer] writes it is read fast,
// because a long run has millions; other JSON is decoded. No span ends before it begins.
func parseSpan(line []byte, s *Span) (err error) {
	if p := (parser{line, true}); !p.span(s) {
		*s = Span{}
		err = json.Unmarshal(line, s)
	}
	s.End = max(s.Begin, s.End) // the clock may have been set
	return err
}

// parser reads the fields of a line in their order.
type parser struct {
	rest []byte
	ok   bool
}

// span reports whether the line has the form of a written span. s keeps its texts if they are the same.
func (p *parser) span(s *Span) bool {
	var texts [5][]byte
	p.fields(&texts, &s.Step, &s.Version, &s.Begin, &s.End)
	if !p.ok {
		return false
	}
	kind := string(s.Kind)
	for i, to := range []*string{&s.Role, &kind, &s.Name, &s.For, &s.ID} {
		if *to != string(texts[i]) {
			*to = string(texts[i])
		}
	}
	s.Kind = trinity.SpanKind(kind)
	return true
}

// fields reads a line: role, kind, name, who was waited for and ID, and the numbers.
func (p *parser) fields(texts *[5][]byte, step, version, begin, end *int64) {
	texts[0] = p.text(`{"role":"`, true)
	texts[1] = p.text(`,"kind":"`, true)
	texts[2] = p.text(`,"name":"`, false)
	texts[3] = p.text(`,"for":"`, false)
	p.number(`,"step":`, step, false)
	p.number(`,"version":`, version, false)
	texts[4] = p.text(`,"id":"`, false)
	p.number(`,"begin":`, begin, true)
	p.number(`,"end":`, end, true)
	p.ok = p.ok && string(p.rest) == "}\n"
}

// text reads a text behind a key. Without the key the text is "".
func (p *parser) text(key string, must bool) []byte {
	if len(p.rest) < len(key) || string(p.rest[:len(key)]) != key {
		p.ok = p.ok && !must
		return nil
	}
	rest := p.rest[len(key):]
	end := bytes.IndexByte(rest, '"')
	if end < 0 || !isPlain(rest[:end]) {
		p.ok = false
		return nil
	}
	p.rest = rest[end+1:]
	return rest[:end]
}

// isPlain reports whether a text means itself in JSON, without a decoder's look at its characters.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c >= 0x80 || c == '\\' {
			return false
		}
	}
	return true
}

// maxDigits is how many digits any number of 64 bits may have.
const maxDigits = 18

// number reads a whole number behind a key. Without the key it is 0.
func (p *parser) number(key string, dst *int64, must bool) {
	*dst = 0
	if len(p.rest) < len(key) || string(p.rest[:len(key)]) != key {
		p.ok = p.ok && !must
		return
	}
	rest, n, v := p.rest[len(key):], 0, int64(0)
	isNegative := len(rest) > 0 && rest[0] == '-'
	if isNegative {
		rest = rest[1:]
	}
	for n < len(rest) && '0' <= rest[n] && rest[n] <= '9' {
		v, n = 10*v+int64(rest[n]-'0'), n+1
	}
	if n == 0 || n > maxDigits {
		p.ok = false
	}
	if isNegative {
		v = -v
	}
	*dst, p.rest = v, rest[n:]
}
