package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// maxGrowth bounds how many times longer a normalizer or a decoder makes a text. Those of real
// models make one about 12 times longer at most: a space becomes the three bytes of ▁.
const maxGrowth = 256

// growing is a step of a normalizer or a decoder that may make a text longer. Only a replacement of
// one text by another is applied to see how much; the others have a bound.
type growing struct {
	bound    float64
	from, to string // of a replacement
	where    string
	replaces bool
}

// boundsOf are the bounds of steps by their types: a Unicode form makes 11 bytes of 1 at most.
var boundsOf = map[string]float64{"NFC": 3, "NFD": 3, "NFKC": 11, "NFKD": 11, "Lowercase": 2, "Metaspace": 3}

// checkGrowth returns an error if a normalizer or a decoder may make a text too long. Such a file is
// damaged or hostile: a few bytes of a prompt would take the machine's memory.
func checkGrowth(data json.RawMessage, where string) error {
	steps, err := growingSteps(data, where)
	if err != nil || len(steps) == 0 {
		return err
	}
	all, bounded := 1.0, 1.0
	for _, s := range steps {
		if s.bound > maxGrowth {
			return fmt.Errorf("%s makes a text up to %.0f times as long; at most %d times is supported", s.where, s.bound, maxGrowth)
		}
		if all *= s.bound; !s.replaces {
			bounded *= s.bound
		}
	}
	const mostTried = 64
	if all <= maxGrowth || len(steps) <= mostTried && bounded*replacing(steps, maxGrowth/bounded) <= maxGrowth {
		return nil
	}
	return fmt.Errorf("%s: its %d steps together may make a text more than %d times as long, which is not supported", where, len(steps),
		maxGrowth)
}

// growingSteps returns the steps of a normalizer or decoder, in order.
func growingSteps(data json.RawMessage, where string) ([]growing, error) {
	kind, err := component(data, where)
	if err != nil || kind == "" {
		return nil, err
	}
	var d struct {
		Normalizers, Decoders []json.RawMessage
		Pattern               struct{ String, Regex *string }
		Content, Prepend      string
	}
	if json.Unmarshal(data, &d) != nil {
		return nil, nil // whoever builds the step says what is wrong
	}
	s := growing{bound: max(1, boundsOf[kind]), where: where}
	switch kind {
	case "Sequence":
		var all []growing
		for name, parts := range map[string][]json.RawMessage{"normalizers": d.Normalizers, "decoders": d.Decoders} {
			for i, part := range parts {
				steps, err := growingSteps(part, fmt.Sprintf("%s.%s[%d]", where, name, i))
				if err != nil {
					return nil, err
				}
				all = append(all, steps...)
			}
		}
		return all, nil
	case "Prepend":
		s.bound = 1 + float64(len(d.Prepend))
	case "Replace":
		switch p := d.Pattern; {
		case p.Regex != nil: // a match may be empty
			s.bound = 1 + float64(len(d.Content))
		case p.String != nil && *p.String != "":
			s.from, s.to, s.replaces = *p.String, d.Content, true
			s.bound = max(1, float64(len(s.to))/float64(len(s.from)))
		}
	}
	return []growing{s}, nil
}

// replacing returns how many times longer the replacements make a text, tried with what they look
// for and what they write, at each step where it may begin. It stops above most.
func replacing(steps []growing, most float64) float64 {
	var seeds []string
	for _, s := range steps {
		for _, text := range []string{s.from, s.to} {
			if len(text) > maxGrowth {
				continue // its bound alone says how long it can become
			}
			seeds = append(seeds, text, strings.Repeat(text, 8))
			for _, r := range text {
				seeds = append(seeds, string(r), strings.Repeat(string(r), 64))
			}
		}
	}
	known, grown := map[string]bool{"": true}, 1.0
	for _, seed := range seeds {
		if known[seed] {
			continue
		}
		known[seed] = true
		for first := range steps {
			text := seed
			for _, s := range steps[first:] {
				if s.from != "" {
					text = strings.ReplaceAll(text, s.from, s.to)
				}
				if grown = max(grown, float64(len(text))/float64(len(seed))); grown > most {
					return grown
				}
			}
		}
	}
	return grown
}
