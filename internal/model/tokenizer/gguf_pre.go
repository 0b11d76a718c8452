package tokenizer

import (
	"encoding/json"
	"strings"
)

// preKind describes how tokenizers with one value of tokenizer.ggml.pre split text before merging.
type preKind struct {
	normalizer   json.RawMessage
	preTokenizer json.RawMessage
	ignoreMerges bool
	addBOS       bool // if the file has no add_bos_token
	main         bool // the name to write; others name the same kind
}

const (
	byteLevelJSON     = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`
	byteLevelBareJSON = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}`
	digitsJSON        = `{"type":"Digits","individual_digits":true}`
)

var preKinds = func() map[string]preKind {
	gpt2 := preKind{preTokenizer: json.RawMessage(byteLevelJSON)}
	digits := preKind{preTokenizer: sequenceJSON(digitsJSON, byteLevelJSON)}
	llama3 := preKind{preTokenizer: sequenceJSON(splitJSON(patternLlama3), byteLevelBareJSON), ignoreMerges: true, addBOS: true}
	qwen2 := preKind{normalizer: json.RawMessage(`{"type":"NFC"}`), preTokenizer: sequenceJSON(splitJSON(patternQwen2), byteLevelBareJSON)}
	// llama.cpp's default for a file without a kind.
	unnamed := preKind{preTokenizer: sequenceJSON(splitJSON(`[\p{P}\$\+<=>\^~\|]+`), splitJSON(patternGPT2), splitJSON(`\p{N}+`),
		splitJSON(`[0-9][0-9][0-9]`), byteLevelBareJSON)}
	named := func(k preKind) preKind { k.main = true; return k }
	return map[string]preKind{
		"default": named(unnamed),
		"gpt-2":   named(gpt2), "phi-2": gpt2, "olmo": gpt2, "mpt": gpt2,
		"smollm": named(digits), "starcoder": digits, "refact": digits, "command-r": digits,
		"llama-bpe": named(llama3), "llama3": llama3, "llama-v3": llama3,
		"qwen2": named(qwen2), "deepseek-r1-qwen": qwen2,
	}
}()

func sequenceJSON(parts ...string) json.RawMessage {
	return json.RawMessage(`{"type":"Sequence","pretokenizers":[` + strings.Join(parts, ",") + `]}`)
}

func splitJSON(pattern string) string {
	quoted, err := json.Marshal(pattern)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return `{"type":"Split","pattern":{"Regex":` + string(quoted) + `},"behavior":"Isolated","invert":false}`
}
