package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// piece is a part of a text during pre-tokenizing. first is set if it begins the text of Encode.
type piece struct {
	text  string
	first bool
}

// splitter is one step of pre-tokenizing. split appends the pieces of p; none is empty.
type splitter interface {
	split(dst []piece, p piece) []piece
}

// preTokenizer is a chain of splitters. byteLevel is set if the vocabulary uses the byte alphabet.
type preTokenizer struct {
	steps     []splitter
	byteLevel bool
}

func newPreTokenizer(data json.RawMessage) (*preTokenizer, error) {
	t := new(preTokenizer)
	if err := t.add(data, "pre_tokenizer"); err != nil {
		return nil, err
	}
	// Words are raw bytes; only steps after ByteLevel see the byte alphabet.
	for i, s := range t.steps {
		if _, ok := s.(alphabetStep); ok && i == len(t.steps)-1 {
			t.steps = t.steps[:i]
		} else if ok {
			t.steps = append(t.steps, bytesStep{})
			break
		}
	}
	return t, nil
}

func (t *preTokenizer) add(data json.RawMessage, where string) error {
	kind, err := component(data, where)
	if err != nil || kind == "" {
		return err
	}
	switch kind {
	case "Sequence":
		return eachPart(data, where, "pretokenizers", t.add)
	case "ByteLevel":
		return t.addByteLevel(data, where)
	case "Split":
		s, err := newPatternSplit(data, where)
		t.steps = append(t.steps, s)
		return err
	case "Digits":
		var d struct {
			Type       string
			Individual bool `json:"individual_digits"`
		}
		err := strict(data, where, &d)
		t.steps = append(t.steps, digitSplit{d.Individual})
		return err
	case "Metaspace":
		m, err := newMetaspace(data, where)
		t.steps = append(t.steps, m)
		return err
	}
	return unsupported(where, kind, "Sequence", "ByteLevel", "Split", "Digits", "Metaspace")
}

func (t *preTokenizer) addByteLevel(data json.RawMessage, where string) error {
	d := struct {
		Type           string
		AddPrefixSpace bool `json:"add_prefix_space"`
		TrimOffsets    bool `json:"trim_offsets"` // this package computes no offsets
		UseRegex       bool `json:"use_regex"`
	}{UseRegex: true}
	if err := strict(data, where, &d); err != nil {
		return err
	}
	if t.byteLevel {
		return fmt.Errorf("%s: a second ByteLevel is not supported", where)
	}
	t.byteLevel = true
	if d.AddPrefixSpace {
		t.steps = append(t.steps, prefixSpace{})
	}
	if d.UseRegex {
		t.steps = append(t.steps, &patternSplit{pattern{scan: scanGPT2}, isolated, false})
	}
	t.steps = append(t.steps, alphabetStep{})
	return nil
}

// words splits p into words. The result uses one of the buffers a and b, which may grow.
func (t *preTokenizer) words(p piece, a, b []piece) (words, spare []piece) {
	a = append(a[:0], p)
	for _, step := range t.steps {
		b = b[:0]
		for _, p := range a {
			b = step.split(b, p)
		}
		a, b = b, a
	}
	return a, b
}

type prefixSpace struct{}

func (prefixSpace) split(dst []piece, p piece) []piece {
	if !strings.HasPrefix(p.text, " ") {
		p.text = " " + p.text
	}
	return append(dst, p)
}

type alphabetStep struct{}

func (alphabetStep) split(dst []piece, p piece) []piece {
	return append(dst, piece{alphabetOf(p.text), p.first})
}

type bytesStep struct{}

func (bytesStep) split(dst []piece, p piece) []piece {
	text, _ := bytesOf(p.text) // alphabetStep made every code point
	return append(dst, piece{text, p.first})
}

// digitSplit splits off numbers, whole or digit by digit.
type digitSplit struct{ individual bool }

func (t digitSplit) split(dst []piece, p piece) []piece {
	start, startNumeric := 0, false
	for i, r := range p.text {
		numeric := isNumeric(r)
		if i > start && (numeric != startNumeric || numeric && t.individual) {
			dst = append(dst, piece{p.text[start:i], p.first && start == 0})
			start = i
		}
		startNumeric = numeric
	}
	return append(dst, piece{p.text[start:], p.first && start == 0})
}

// metaspace replaces spaces by ▁ (SentencePiece) and may prepend a ▁ to the text.
type metaspace struct {
	mark      string
	prepend   string // "always", "first" or "never"
	separates bool
}

func newMetaspace(data json.RawMessage, where string) (*metaspace, error) {
	d := struct {
		Type           string
		Replacement    string
		StrRep         string  `json:"str_rep"` // repeats the replacement in files of 2020
		AddPrefixSpace *bool   `json:"add_prefix_space"`
		PrependScheme  *string `json:"prepend_scheme"`
		Split          bool
	}{Split: true}
	if err := strict(data, where, &d); err != nil {
		return nil, err
	}
	m := &metaspace{d.Replacement, "always", d.Split}
	if utf8.RuneCountInString(m.mark) != 1 {
		return nil, fmt.Errorf("%s.replacement is %q; expected one character", where, m.mark)
	}
	if d.AddPrefixSpace != nil && !*d.AddPrefixSpace {
		m.prepend = "never"
	}
	if d.PrependScheme != nil {
		m.prepend = *d.PrependScheme
	}
	if m.prepend != "always" && m.prepend != "first" && m.prepend != "never" {
		return nil, fmt.Errorf("%s.prepend_scheme is %q; expected always, first or never", where, m.prepend)
	}
	return m, nil
}

func (m *metaspace) split(dst []piece, p piece) []piece {
	p.text = strings.ReplaceAll(p.text, " ", m.mark)
	if wanted := m.prepend == "always" || m.prepend == "first" && p.first; wanted && !strings.HasPrefix(p.text, m.mark) {
		p.text = m.mark + p.text
	}
	if !m.separates {
		return append(dst, p)
	}
	return splitSpans(dst, p, pattern{literal: m.mark}.find(nil, p.text), mergedWithNext, false)
}
