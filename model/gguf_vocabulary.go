package model

import (
	"fmt"
	"strconv"

	"github.com/trinity-go/trinity/model/tokenizer"
)

// vocabulary reads tokenizer.ggml.*. It returns nil if the file has no tokens.
func (m *metadata) vocabulary() *tokenizer.Vocabulary {
	tokens, ok := optional[[]string](m, "tokenizer.ggml.tokens")
	if !ok {
		return nil
	}
	v := &tokenizer.Vocabulary{Tokens: tokens}
	v.Model, _ = optional[string](m, "tokenizer.ggml.model")
	v.Pre, _ = optional[string](m, "tokenizer.ggml.pre")
	v.Merges, _ = optional[[]string](m, "tokenizer.ggml.merges")
	v.Scores, _ = optional[[]float32](m, "tokenizer.ggml.scores")
	v.Types, _ = optional[[]int32](m, "tokenizer.ggml.token_type")
	v.ChatTemplate, _ = optional[string](m, "tokenizer.chat_template")
	v.BOS, v.EOS = m.tokenID("bos", v), m.tokenID("eos", v)
	v.UNK, v.PAD = m.tokenID("unknown", v), m.tokenID("padding", v)
	v.AddBOS, v.AddEOS, v.AddSpacePrefix = m.tristate("add_bos_token"), m.tristate("add_eos_token"), m.tristate("add_space_prefix")
	for what, n := range map[string]int{"scores": len(v.Scores), "token_type": len(v.Types)} {
		if n != 0 && n != len(tokens) {
			m.errs = append(m.errs, fmt.Errorf("metadata tokenizer.ggml.%s has %d entries; expected one for each of %d tokens",
				what, n, len(tokens)))
		}
	}
	return v
}

func (m *metadata) tokenID(which string, v *tokenizer.Vocabulary) int32 {
	key := "tokenizer.ggml." + which + "_token_id"
	id := m.integer(key, -1)
	if id >= len(v.Tokens) {
		m.errs = append(m.errs, fmt.Errorf("metadata %s is %d; the vocabulary has %d tokens", key, id, len(v.Tokens)))
		return -1
	}
	return int32(id)
}

func (m *metadata) tristate(key string) *bool {
	b, ok := optional[bool](m, "tokenizer.ggml."+key)
	if !ok {
		return nil
	}
	return &b
}

// shortest returns the float64 that prints like f: 1e-5 stored as float32 becomes 1e-5, as in
// config.json.
func shortest(f float32) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'g', -1, 32), 64)
	return v
}
