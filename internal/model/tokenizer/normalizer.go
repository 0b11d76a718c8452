package tokenizer

import (
	"encoding/json"
	"strings"
	"unicode"
)

// normalizer rewrites a part of a text before pre-tokenizing; nil does nothing.
type normalizer func(string) string

func newNormalizer(data json.RawMessage, where string) (normalizer, error) {
	kind, err := component(data, where)
	if err != nil || kind == "" {
		return nil, err
	}
	switch kind {
	case "Sequence":
		return newNormalizerSequence(data, where)
	case "NFC", "NFD", "NFKC", "NFKD":
		return unicodeForms[kind], strict(data, where, &struct{ Type string }{})
	case "Lowercase":
		return lower, strict(data, where, &struct{ Type string }{})
	case "Strip":
		return newStripNormalizer(data, where)
	case "Prepend":
		return newPrependNormalizer(data, where)
	case "Replace":
		r, err := newReplacer(data, where)
		return r, err
	}
	return nil, unsupported(where, kind, "Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "Prepend", "Replace")
}

func newNormalizerSequence(data json.RawMessage, where string) (normalizer, error) {
	var steps []normalizer
	err := eachPart(data, where, "normalizers", func(part json.RawMessage, where string) error {
		step, err := newNormalizer(part, where)
		if step != nil {
			steps = append(steps, step)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return func(s string) string {
		for _, step := range steps {
			s = step(s)
		}
		return s
	}, nil
}

func newStripNormalizer(data json.RawMessage, where string) (normalizer, error) {
	d := struct {
		Type  string
		Left  bool `json:"strip_left"`
		Right bool `json:"strip_right"`
	}{Left: true, Right: true}
	if err := strict(data, where, &d); err != nil {
		return nil, err
	}
	return func(s string) string {
		if d.Left {
			s = strings.TrimLeftFunc(s, unicode.IsSpace)
		}
		if d.Right {
			s = strings.TrimRightFunc(s, unicode.IsSpace)
		}
		return s
	}, nil
}

func newPrependNormalizer(data json.RawMessage, where string) (normalizer, error) {
	var d struct{ Type, Prepend string }
	if err := strict(data, where, &d); err != nil {
		return nil, err
	}
	return func(s string) string {
		if s == "" {
			return s
		}
		return d.Prepend + s
	}, nil
}

// newReplacer reads a Replace, which may be a normalizer or a decoder.
func newReplacer(data json.RawMessage, where string) (func(string) string, error) {
	var d struct {
		Type    string
		Pattern json.RawMessage
		Content string
	}
	if err := strict(data, where, &d); err != nil {
		return nil, err
	}
	p, err := newPattern(d.Pattern, where+".pattern")
	if err != nil {
		return nil, err
	}
	if p.literal != "" {
		return func(s string) string { return strings.ReplaceAll(s, p.literal, d.Content) }, nil
	}
	return func(s string) string {
		var b strings.Builder
		done := 0
		for _, m := range p.find(nil, s) {
			b.WriteString(s[done:m.start])
			b.WriteString(d.Content)
			done = m.end
		}
		b.WriteString(s[done:])
		return b.String()
	}, nil
}
