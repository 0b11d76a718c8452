package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Vocabulary returns the tokenizer as a GGUF file holds it. rows is the number of the model's
// embeddings: ids without a token become unused tokens. It is an error if programs that read the
// GGUF file would encode some text differently.
func (t *Tokenizer) Vocabulary(rows int) (*Vocabulary, error) {
	v, err := t.vocabulary(rows)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: a GGUF file of this program cannot hold this tokenizer: %w: write the model as a directory, which "+
			"llama.cpp's own converter reads", err)
	}
	return v, nil
}

func (t *Tokenizer) vocabulary(rows int) (*Vocabulary, error) {
	if t.VocabSize() > rows {
		return nil, fmt.Errorf("it has %d tokens; the model has %d embeddings", t.VocabSize(), rows)
	}
	v := &Vocabulary{BOS: t.BOS(), EOS: t.EOS(), UNK: t.UNK(), PAD: t.PAD(), ChatTemplate: t.template}
	v.Tokens, v.Types = t.allTokens(rows)
	if err := t.markAdded(v); err != nil {
		return nil, err
	}
	if err := t.setFrame(v); err != nil {
		return nil, err
	}
	if t.split.byteLevel {
		return v, t.byteLevelVocabulary(v)
	}
	return v, t.sentencePieceVocabulary(v)
}

// allTokens returns a token for each embedding, and its type.
func (t *Tokenizer) allTokens(rows int) (tokens []string, types []int32) {
	tokens, types = make([]string, rows), make([]int32, rows)
	for id := range tokens {
		tokens[id], types[id] = t.Token(int32(id)), typeNormal
		if tokens[id] == "" {
			tokens[id], types[id] = fmt.Sprintf("[PAD%d]", id), typeUnused
		}
	}
	return tokens, types
}

// markAdded sets the types of added tokens.
func (t *Tokenizer) markAdded(v *Vocabulary) error {
	for _, a := range t.definition.AddedTokens {
		if a.LStrip || a.RStrip || a.SingleWord {
			return fmt.Errorf("the added token %q has lstrip, rstrip or single_word", a.Content)
		}
		if a.Normalized && t.normalize != nil && t.normalize(a.Content) != a.Content {
			return fmt.Errorf("the added token %q is looked for in normalized text", a.Content)
		}
		v.Types[a.ID] = typeUserDefined
		if a.Special {
			v.Types[a.ID] = typeControl
		}
	}
	return nil
}

// setFrame sets the tokens around a text.
func (t *Tokenizer) setFrame(v *Vocabulary) error {
	for _, side := range []struct {
		name string
		ids  []int32
		id   int32
		add  **bool
	}{{"before", t.frame.before, v.BOS, &v.AddBOS}, {"after", t.frame.after, v.EOS, &v.AddEOS}} {
		added := len(side.ids) > 0
		if added && !slices.Equal(side.ids, []int32{side.id}) {
			return fmt.Errorf("it adds the tokens %d %s a text; a GGUF file can only add bos_token before it and eos_token after it",
				side.ids, side.name)
		}
		*side.add = &added
	}
	return nil
}

func (t *Tokenizer) byteLevelVocabulary(v *Vocabulary) error {
	v.Model, v.AddSpacePrefix, v.Merges = "gpt2", new(bool), []string{} // llama.cpp wants a list, even an empty one
	for _, m := range t.definition.Model.Merges {
		v.Merges = append(v.Merges, m[0]+" "+m[1])
	}
	split := t.definition.PreTokenizer
	if len(v.Merges) == 0 && sameJSON(split, json.RawMessage(byteLevelBareJSON)) {
		split = json.RawMessage(byteLevelJSON) // without merges it does not matter where words end
	}
	for _, name := range mainKinds() {
		pre := preKinds[name]
		if pre.ignoreMerges == t.definition.Model.IgnoreMerges && sameJSON(pre.normalizer, t.definition.Normalizer) &&
			sameJSON(pre.preTokenizer, split) {
			v.Pre = name
			return nil
		}
	}
	return fmt.Errorf("normalizer, pre_tokenizer and ignore_merges are those of none of the known kinds (%s)", strings.Join(mainKinds(), ", "))
}

// mainKinds lists the kinds that Vocabulary chooses from. The others are further names for them.
func mainKinds() []string {
	names := slices.Sorted(maps.Keys(preKinds))
	return slices.DeleteFunc(names, func(name string) bool { return !preKinds[name].main })
}

// sentencePieceVocabulary derives the scores from the merges: SentencePiece numbers both alike.
func (t *Tokenizer) sentencePieceVocabulary(v *Vocabulary) error {
	model := t.definition.Model
	v.Model = "llama"
	prepends := strings.Contains(string(t.definition.Normalizer), `"Prepend"`)
	v.AddSpacePrefix = &prepends
	if v.UNK >= 0 {
		v.Types[v.UNK] = typeUnknown
	}
	for b := range 256 {
		if id, ok := model.Vocab[fmt.Sprintf("<0x%02X>", b)]; ok && model.ByteFallback {
			v.Types[id] = typeByte
		}
	}
	rank := map[string]int{}
	for i, m := range model.Merges {
		if _, ok := rank[m[0]+m[1]]; !ok {
			rank[m[0]+m[1]] = i
		}
	}
	v.Scores = make([]float32, len(v.Tokens))
	for id, token := range v.Tokens {
		if i, ok := rank[token]; ok {
			v.Scores[id] = -float32(i)
		}
	}
	again, err := v.definition()
	if err != nil {
		return err
	}
	switch {
	case !sameJSON(again.Normalizer, t.definition.Normalizer) || !sameJSON(nil, t.definition.PreTokenizer):
		return fmt.Errorf("its normalizer or pre_tokenizer is neither byte-level nor SentencePiece's")
	case !slices.Equal(again.Model.Merges, model.Merges):
		return fmt.Errorf("its merges are not those of a SentencePiece model")
	case again.Model.ByteFallback != model.ByteFallback:
		return fmt.Errorf("byte_fallback is %v", model.ByteFallback)
	}
	return nil
}

// sameJSON reports whether two components of a tokenizer.json do the same. It ignores settings of
// offsets, which do not change ids.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	if a != nil && json.Unmarshal(a, &x) != nil || b != nil && json.Unmarshal(b, &y) != nil {
		return false
	}
	return reflect.DeepEqual(withoutOffsets(x), withoutOffsets(y))
}

func withoutOffsets(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "trim_offsets")
		for key, item := range v {
			v[key] = withoutOffsets(item)
		}
	case []any:
		for i, item := range v {
			v[i] = withoutOffsets(item)
		}
	}
	return v
}
