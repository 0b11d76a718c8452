package modelfile

// Vocabulary is the tokenizer data of a GGUF file, as stored.
type Vocabulary struct {
	Model  string // "gpt2" (byte-level BPE), "llama" (SentencePiece) …
	Pre    string // pre-tokenizer: "smollm", "qwen2", "llama-bpe" …; empty if not given
	Tokens []string
	Merges []string  // "left right"; nil if the model has none
	Scores []float32 // [len(Tokens)] or nil
	Types  []int32   // [len(Tokens)] or nil: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte

	BOS, EOS, UNK, PAD int32 // token ids; −1 if not given

	AddBOS, AddEOS, AddSpacePrefix *bool // nil if not given: the default depends on Model
	ChatTemplate                   string
}
