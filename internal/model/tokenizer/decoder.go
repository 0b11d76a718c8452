package tokenizer

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// stage is one step of a running decoder. push takes one token after another and pushes the result
// into the next stage; flush says that no token follows.
type stage interface {
	push(token string)
	flush()
}

// decoder creates the stages that decode one text.
type decoder struct {
	make []func(next stage) stage
	// fused says that the stages so far join all tokens into one; later stages see fragments of it.
	fused bool
	// byteLevel and byteFallback say that there is such a stage.
	byteLevel, byteFallback bool
}

func newDecoder(data json.RawMessage) (*decoder, error) {
	d := new(decoder)
	kind, err := component(data, "decoder")
	if err != nil {
		return nil, err
	}
	if kind == "" {
		d.make = append(d.make, func(next stage) stage { return &spaceJoin{next: next} })
		return d, nil
	}
	return d, d.add(data, "decoder")
}

// start puts the stages in front of out.
func (d *decoder) start(out stage) stage {
	for i := len(d.make) - 1; i >= 0; i-- {
		out = d.make[i](out)
	}
	return out
}

func (d *decoder) add(data json.RawMessage, where string) error {
	kind, err := component(data, where)
	if err != nil {
		return err
	}
	if d.fused && kind != "Fuse" && kind != "Strip" && kind != "Sequence" {
		return fmt.Errorf("%s: %s after a stage that joins the tokens is not supported", where, kind)
	}
	bare := struct{ Type string }{}
	switch kind {
	case "Sequence":
		return eachPart(data, where, "decoders", d.add)
	case "ByteLevel":
		var ignored struct { // settings of encoding that the file repeats here
			Type           string
			AddPrefixSpace bool `json:"add_prefix_space"`
			TrimOffsets    bool `json:"trim_offsets"`
			UseRegex       bool `json:"use_regex"`
		}
		d.fused, d.byteLevel = true, true
		d.make = append(d.make, func(next stage) stage { return &byteLevelStage{next: next} })
		return strict(data, where, &ignored)
	case "ByteFallback":
		d.byteFallback = true
		d.make = append(d.make, func(next stage) stage { return &byteFallbackStage{next: next} })
		return strict(data, where, &bare)
	case "Fuse":
		d.fused = true
		return strict(data, where, &bare)
	case "Replace":
		replace, err := newReplacer(data, where)
		d.make = append(d.make, func(next stage) stage { return &replaceStage{next, replace} })
		return err
	case "Strip":
		return d.addStrip(data, where)
	case "Metaspace":
		m, err := newMetaspace(data, where)
		if err != nil {
			return err
		}
		d.make = append(d.make, func(next stage) stage { return &metaspaceStage{next: next, metaspace: m, first: true} })
		return nil
	}
	return unsupported(where, kind, "Sequence", "ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace")
}

func (d *decoder) addStrip(data json.RawMessage, where string) error {
	var s struct {
		Type        string
		Content     string
		Start, Stop int
	}
	if err := strict(data, where, &s); err != nil {
		return err
	}
	if utf8.RuneCountInString(s.Content) != 1 || s.Start < 0 || s.Stop < 0 {
		return fmt.Errorf("%s: content is %q, start %d, stop %d; expected one character, and start and stop of at least 0", where,
			s.Content, s.Start, s.Stop)
	}
	if d.fused {
		d.make = append(d.make, func(next stage) stage {
			return &stripText{next: next, content: s.Content, start: s.Start, stop: s.Stop}
		})
	} else {
		d.make = append(d.make, func(next stage) stage { return &stripToken{next, s.Content, s.Start, s.Stop} })
	}
	return nil
}
