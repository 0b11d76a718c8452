package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// definition is the content of tokenizer.json, as the Hugging Face tokenizers library writes it.
type definition struct {
	Version string `json:"version"`
	// Truncation and padding are settings for batches. Like transformers, Encode applies neither.
	Truncation    json.RawMessage  `json:"truncation"`
	Padding       json.RawMessage  `json:"padding"`
	AddedTokens   []addedToken     `json:"added_tokens"`
	Normalizer    json.RawMessage  `json:"normalizer"`
	PreTokenizer  json.RawMessage  `json:"pre_tokenizer"`
	PostProcessor json.RawMessage  `json:"post_processor"`
	Decoder       json.RawMessage  `json:"decoder"`
	Model         *modelDefinition `json:"model"`
}

type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type modelDefinition struct {
	Type                    string           `json:"type"`
	Dropout                 *float64         `json:"dropout"`
	UnkToken                *string          `json:"unk_token"`
	ContinuingSubwordPrefix *string          `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string          `json:"end_of_word_suffix"`
	FuseUnk                 bool             `json:"fuse_unk"`
	ByteFallback            bool             `json:"byte_fallback"`
	IgnoreMerges            bool             `json:"ignore_merges"`
	Vocab                   map[string]int32 `json:"vocab"`
	Merges                  mergeList        `json:"merges"`
}

// UnmarshalJSON reports an unsupported type before it can fail at that type's first unknown key.
func (m *modelDefinition) UnmarshalJSON(data []byte) error {
	type plain modelDefinition
	failure := strict(data, "model", (*plain)(m))
	if failure != nil {
		var head struct{ Type string }
		if err := json.Unmarshal(data, &head); err != nil {
			return failure
		}
		m.Type = head.Type
	}
	if m.Type == "" && m.Merges != nil {
		m.Type = "BPE" // files from before the key existed
	}
	if m.Type != "BPE" {
		return fmt.Errorf("model.type is %q; only \"BPE\" is supported", m.Type)
	}
	return failure
}

// mergeList holds the merges in order of rank. Files spell a merge as ["a","b"] or, before 2024, as
// "a b".
type mergeList [][2]string

// UnmarshalJSON accepts both spellings.
func (l *mergeList) UnmarshalJSON(data []byte) error {
	inside := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("[")), " \t\r\n")
	if bytes.HasPrefix(inside, []byte(`"`)) {
		return l.readWords(data)
	}
	return l.readPairs(data)
}

func (l *mergeList) readWords(data []byte) error {
	var words []string
	if err := strict(data, "merges", &words); err != nil {
		return err
	}
	*l = make(mergeList, len(words))
	for i, w := range words {
		left, right, ok := strings.Cut(w, " ")
		if !ok || strings.Contains(right, " ") {
			return fmt.Errorf("merges[%d] is %q; expected two tokens with a space between", i, w)
		}
		(*l)[i] = [2]string{left, right}
	}
	return nil
}

func (l *mergeList) readPairs(data []byte) error {
	var pairs [][]string
	if err := strict(data, "merges", &pairs); err != nil {
		return err
	}
	*l = make(mergeList, len(pairs))
	for i, p := range pairs {
		if len(p) != 2 {
			return fmt.Errorf("merges[%d] has %d tokens; expected 2", i, len(p))
		}
		(*l)[i] = [2]string(p)
	}
	return nil
}

// parseDefinition reads tokenizer.json.
func parseDefinition(data []byte) (*definition, error) {
	d := new(definition)
	if err := strict(data, "", d); err != nil {
		return nil, err
	}
	if d.Version != "" && d.Version != "1.0" {
		return nil, fmt.Errorf("version is %q; expected \"1.0\"", d.Version)
	}
	if d.Model == nil {
		return nil, fmt.Errorf("model is missing")
	}
	for _, part := range []struct {
		where string
		data  json.RawMessage
	}{
		{"normalizer", d.Normalizer}, {"pre_tokenizer", d.PreTokenizer}, {"post_processor", d.PostProcessor}, {"decoder", d.Decoder},
	} {
		if err := checkParts(part.data, part.where); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Bounds of a normalizer, pre-tokenizer, post-processor or decoder. Each step runs over every text, and
// each level of a Sequence is parsed once more. Those of real models have about 50 parts on 6 levels.
const (
	maxParts    = 4096 // objects and lists
	maxNesting  = 64
	maxPatterns = 64
)

// checkParts returns an error if a component has more parts than a bound.
func checkParts(data []byte, where string) error {
	parts, depth, quoted := 0, 0, false
	for i := 0; i < len(data) && parts <= maxParts && depth <= maxNesting; i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			parts++
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
	switch {
	case depth > maxNesting:
		return fmt.Errorf("%s nests deeper than %d levels, which is not supported", where, maxNesting)
	case parts > maxParts:
		return fmt.Errorf("%s has more than %d objects and lists, which is not supported: each step would run over every text", where, maxParts)
	}
	if n := bytes.Count(data, []byte(`"Regex"`)); n > maxPatterns {
		return fmt.Errorf("%s has %d regular expressions; at most %d are supported", where, n, maxPatterns)
	}
	return nil
}

// strict decodes JSON into v; a key that v does not have is an error.
func strict(data []byte, where string, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil && dec.More() {
		err = fmt.Errorf("text after the closing brace")
	}
	switch wrong := (*json.UnmarshalTypeError)(nil); {
	case errors.Is(err, io.EOF):
		err = errors.New("there is no JSON")
	case errors.As(err, &wrong) && wrong.Field == "":
		err = fmt.Errorf("a JSON %s has another type than expected", wrong.Value)
	case errors.As(err, &wrong):
		err = fmt.Errorf("%s: a JSON %s has another type than expected, or is out of range",
			strings.TrimPrefix(wrong.Field, "plain."), wrong.Value)
	}
	if err != nil && where != "" {
		err = fmt.Errorf("%s: %w", where, err)
	}
	return err
}

// component returns the type of a normalizer, pre-tokenizer, post-processor or decoder; "" if there
// is none.
func component(data json.RawMessage, where string) (string, error) {
	if len(data) == 0 || bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return "", nil
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return "", fmt.Errorf("%s: %w", where, err)
	}
	if head.Type == "" {
		return "", fmt.Errorf("%s has no type", where)
	}
	return head.Type, nil
}

// eachPart calls add for the parts of a Sequence, which stand under a key, with the place of each.
func eachPart(data json.RawMessage, where, key string, add func(part json.RawMessage, where string) error) error {
	var fields map[string]json.RawMessage
	if err := strict(data, where, &fields); err != nil {
		return err
	}
	for _, other := range slices.Sorted(maps.Keys(fields)) {
		if other != key && other != "type" {
			return fmt.Errorf("%s: json: unknown field %q", where, other)
		}
	}
	var parts []json.RawMessage
	if fields[key] != nil {
		if err := strict(fields[key], where+"."+key, &parts); err != nil {
			return err
		}
	}
	for i, part := range parts {
		if err := add(part, fmt.Sprintf("%s.%s[%d]", where, key, i)); err != nil {
			return err
		}
	}
	return nil
}

// unsupported returns the error for a component of an unsupported type.
func unsupported(where, kind string, known ...string) error {
	slices.Sort(known)
	return fmt.Errorf("%s.type is %q; supported are %s", where, kind, strings.Join(known, ", "))
}
