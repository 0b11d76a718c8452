package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const small = `{"version":"1.0","added_tokens":[{"id":3,"content":"<s>","special":true},{"id":4,"content":"</s>","special":true}],
"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"post_processor":null,
"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`

func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestConfigSetsSpecialTokens(t *testing.T) {
	for name, c := range map[string]struct {
		files    map[string]string
		bos, eos int32
		template string
		ids      []int32 // of "ab" with special tokens
	}{
		"alone": {nil, -1, -1, "", []int32{2}},
		"names": {map[string]string{configFile: `{"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false}}`},
			3, 4, "", []int32{2}},
		"special map": {map[string]string{specialsFile: `{"bos_token":{"content":"<s>"}}`}, 3, -1, "", []int32{2}},
		"config over map": {map[string]string{specialsFile: `{"bos_token":"<s>","eos_token":"<s>"}`,
			configFile: `{"bos_token":null,"eos_token":"</s>"}`}, -1, 4, "", []int32{2}},
		"add bos": {map[string]string{configFile: `{"bos_token":"<s>","eos_token":"</s>","add_bos_token":true,` +
			`"add_eos_token":true}`}, 3, 4, "", []int32{2}},
		"template":      {map[string]string{configFile: `{"chat_template":"T"}`}, -1, -1, "T", []int32{2}},
		"template null": {map[string]string{configFile: `{"chat_template":null}`}, -1, -1, "", []int32{2}},
		"named templates": {map[string]string{configFile: `{"chat_template":[{"name":"rag","template":"R"},{"name":"default",` +
			`"template":"D"}]}`}, -1, -1, "D", []int32{2}},
		"template in file": {map[string]string{configFile: `{"chat_template":"T"}`, chatTemplateFile: "J"}, -1, -1, "J", []int32{2}},
		"only in config": {map[string]string{configFile: `{"added_tokens_decoder":{"5":{"content":"ab","special":true},` +
			`"3":{"content":"<s>","special":true}}}`}, -1, -1, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{definitionFile: small}
			for file, text := range c.files {
				files[file] = text
			}
			tok, err := Load(directory(t, files))
			if c.ids == nil {
				if err == nil || !strings.Contains(err.Error(), `added token "ab" has id 5; in model.vocab it has 2`) {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tok.BOS() != c.bos || tok.EOS() != c.eos || tok.ChatTemplate() != c.template {
				t.Errorf("BOS %d, EOS %d, template %q; expected %d, %d, %q", tok.BOS(), tok.EOS(), tok.ChatTemplate(), c.bos, c.eos, c.template)
			}
			if got := tok.Encode("ab", true); !slices.Equal(got, c.ids) {
				t.Errorf("ids %v, expected %v", got, c.ids)
			}
		})
	}
}

// Byte-level vocabularies that were trained without the whole alphabet lack some bytes. The
// tokenizers library handles them in the same way.
func TestBytesWithoutTokenFollowTheReference(t *testing.T) {
	for options, want := range map[string][]int32{
		``:                                      {2, 1, 2},
		`,"unk_token":"?"`:                      {2, 5, 5, 1, 5, 5, 2},
		`,"unk_token":"?","fuse_unk":true`:      {2, 5, 1, 5, 2},
		`,"byte_fallback":true`:                 {2, 6, 7, 1, 2},
		`,"byte_fallback":true,"unk_token":"?"`: {2, 6, 7, 5, 1, 5, 5, 2},
	} {
		text := strings.Replace(small, `"ab":2}`, `"ab":2,"?":5,"<0xC3>":6,"<0x83>":7}`+options, 1)
		tok, err := Load(directory(t, map[string]string{definitionFile: text}))
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode("abéb cab", false); !slices.Equal(got, want) {
			t.Errorf("%s: ids %v, expected %v", options, got, want)
		}
	}
}

func TestLookupsFindTokens(t *testing.T) {
	tok, err := parse(map[string][]byte{definitionFile: []byte(small)})
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := tok.TokenID("</s>"); id != 4 || !ok {
		t.Errorf("</s> has id %d, %v", id, ok)
	}
	if _, ok := tok.TokenID("c"); ok {
		t.Error("c has an id")
	}
	if tok.Token(2) != "ab" || tok.Token(5) != "" || tok.Token(-1) != "" || tok.VocabSize() != 5 {
		t.Errorf("tokens %q %q %q, size %d", tok.Token(2), tok.Token(5), tok.Token(-1), tok.VocabSize())
	}
	if !tok.special[3] || tok.special[2] || tok.special[-1] {
		t.Error("3 alone of 3, 2 and -1 is special")
	}
	if got := tok.Encode("a<s>b", false); !slices.Equal(got, []int32{0, 3, 1}) {
		t.Errorf("ids %v", got)
	}
	if got := tok.Decode([]int32{0, 3, -7, 99, 1}, true); got != "ab" {
		t.Errorf("text %q", got)
	}
}

// The error names the setting.
func TestUnsupportedSettingsAreErrors(t *testing.T) {
	for want, replace := range map[string][2]string{
		`unknown field "surprise"`:                    {`"version"`, `"surprise":1,"version"`},
		`version is "2.0"`:                            {`"1.0"`, `"2.0"`},
		`model.type is "Unigram"`:                     {`"BPE"`, `"Unigram"`},
		`model: json: unknown field "temperature"`:    {`"BPE"`, `"BPE","temperature":1`},
		`model.dropout is 0.1`:                        {`"BPE"`, `"BPE","dropout":0.1`},
		`model.end_of_word_suffix is "</w>"`:          {`"BPE"`, `"BPE","end_of_word_suffix":"</w>"`},
		`model.unk_token "?" is not in model.vocab`:   {`"BPE"`, `"BPE","unk_token":"?"`},
		`merges[0] is "ab"`:                           {`"a b"`, `"ab"`},
		`merges[0] has 3 tokens`:                      {`"a b"`, `["a","b","c"]`},
		`model.merges[0]: "a", "c" or "ac" is not in`: {`"a b"`, `["a","c"]`},
		`normalizer.type is "Nmt"`:                    {`"normalizer":null`, `"normalizer":{"type":"Nmt"}`},
		`normalizer.normalizers[0].type is "Nmt"`:     {`"normalizer":null`, `"normalizer":{"type":"Sequence","normalizers":[{"type":"Nmt"}]}`},
		`normalizer: json: unknown field "left"`:      {`"normalizer":null`, `"normalizer":{"type":"Strip","left":true}`},
		`normalizer makes a text up to 1000 times as long`: {`"normalizer":null`,
			`"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("a", 1000) + `"}`},
		`decoder makes a text up to 1001 times as long`: {`"decoder":{"type":"ByteLevel"}`,
			`"decoder":{"type":"Replace","pattern":{"Regex":"a"},"content":"` + strings.Repeat("a", 1000) + `"}`},
		`pre_tokenizer.pattern.Regex "(a*)*(a*)*b" takes too long for 64 characters like "a"`: {
			`{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}`,
			`{"type":"Split","pattern":{"Regex":"(a*)*(a*)*b"},"behavior":"Isolated","invert":false}`},
		`takes too long for 64 characters like "zy"`: {`{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}`,
			`{"type":"Split","pattern":{"Regex":"(zy|z|y)*(zy|z|y)*q"},"behavior":"Isolated","invert":false}`},
		`normalizer has no type`: {`"normalizer":null`, `"normalizer":{}`},
		`normalizer.pattern.Regex "(" does not compile`: {`"normalizer":null`,
			`"normalizer":{"type":"Replace","pattern":{"Regex":"("},"content":""}`},
		`expected a non-empty String or Regex`: {`"normalizer":null`,
			`"normalizer":{"type":"Replace","pattern":{"String":""},"content":""}`},
		`pre_tokenizer.type is "BertPreTokenizer"`: {`"ByteLevel","add_prefix_space":false,"use_regex":true`, `"BertPreTokenizer"`},
		`pre_tokenizer.behavior is "Odd"`: {`"ByteLevel","add_prefix_space":false,"use_regex":true`,
			`"Split","pattern":{"String":"x"},"behavior":"Odd"`},
		`prepend_scheme is "last"`: {`"ByteLevel","add_prefix_space":false,"use_regex":true`,
			`"Metaspace","replacement":"▁","prepend_scheme":"last"`},
		`post_processor.type is "BertProcessing"`: {`"post_processor":null`, `"post_processor":{"type":"BertProcessing"}`},
		`inserts id 77`: {`"post_processor":null`,
			`"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}},` +
				`{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"x":{"id":"x","ids":[77],"tokens":["x"]}}}`},
		`adds more than 1024 special tokens to each text`: {`"post_processor":null`,
			`"post_processor":{"type":"TemplateProcessing","single":[` + strings.Repeat(`{"SpecialToken":{"id":"x","type_id":0}},`, 1000) +
				`{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"x":{"id":"x","ids":[` + strings.Repeat("7,", 500) +
				`7],"tokens":["x"]}}}`},
		`has the Sequence A 0 times`: {`"post_processor":null`,
			`"post_processor":{"type":"TemplateProcessing","single":[],"pair":[],"special_tokens":{}}`},
		`decoder.type is "WordPiece"`: {`{"type":"ByteLevel"}`, `{"type":"WordPiece"}`},
		`decoders[1]: ByteFallback after a stage`: {`{"type":"ByteLevel"}`,
			`{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]}`},
		`token "<s>" has id 2147483647; expected 0 to`: {`"id":3`, `"id":2147483647`},
		`token "<s>" has id -1`:                        {`"id":3`, `"id":-1`},
		`model: vocab: a JSON number 1099511627776 has another type than expected, or is out of range`: {`"b":1`, `"b":1099511627776`},
		`model: merges: a JSON number has another type than expected`:                                  {`"merges":[`, `"merges":[1,`},
		`id 0 belongs to two tokens`: {`"b":1`, `"b":0`},
	} {
		text := strings.Replace(small, replace[0], replace[1], 1)
		if text == small || !json.Valid([]byte(text)) {
			t.Fatalf("%s: the test spoils the file in the wrong way: %s", want, text)
		}
		if _, err := Load(directory(t, map[string]string{definitionFile: text})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q in it", err, want)
		}
	}
	if _, err := Load(t.TempDir()); err == nil || In(t.TempDir()) {
		t.Error("an empty directory has a tokenizer")
	}
	for want, config := range map[string]string{
		`bos_token is "[B]", which the vocabulary does not have`:  `{"bos_token":"[B]"}`,
		`chat_template has the templates ["x" "y"]; expected one`: `{"chat_template":[{"name":"x","template":""},{"name":"y","template":""}]}`,
		`chat_template: expected a string or a list`:              `{"chat_template":7}`,
		`bos_token is 7; expected a string`:                       `{"bos_token":7}`,
		`added_tokens_decoder: "x" is not an id`:                  `{"added_tokens_decoder":{"x":{"content":"y"}}}`,
	} {
		if _, err := Load(directory(t, map[string]string{definitionFile: small, configFile: config})); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q in it", err, want)
		}
	}
}

func TestWriteFilesCopies(t *testing.T) {
	files := map[string]string{definitionFile: small, configFile: "{ \"eos_token\" : \"</s>\" }\n", specialsFile: "{}", chatTemplateFile: "J",
		"preprocessor_config.json": "P"}
	tok, err := Load(directory(t, files))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := tok.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestTokenizerIsSafeForConcurrentUse(t *testing.T) {
	tok, texts := family(t, "qwen2"), referenceTexts(t)[:400]
	var want [][]int32
	for _, text := range texts {
		want = append(want, encodeAndDecode(tok, text))
	}
	shared := family(t, "qwen2")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i, text := range texts {
				if got := encodeAndDecode(shared, text); !slices.Equal(got, want[i]) {
					t.Errorf("%q gives %v, alone %v", text, got, want[i])
				}
			}
		})
	}
	group.Wait()
}

func encodeAndDecode(tok *Tokenizer, text string) []int32 {
	ids := tok.Encode(text, true)
	tok.Decode(ids, true)
	return ids
}

func TestQuickstartModelHasAByteTokenizer(t *testing.T) {
	tok, err := Load("../../../examples/quickstart/model")
	if err != nil {
		t.Fatal(err)
	}
	for b := range 256 {
		if got := tok.Decode([]int32{int32(b)}, false); b < 128 && got != string(rune(b)) {
			t.Errorf("id %d is %q", b, got)
		}
	}
	prompt := "<|im_start|>user\n17+25=?<|im_end|>\n<|im_start|>assistant\n"
	if ids := tok.Encode(prompt, true); len(ids) != 26 || ids[0] != 257 || ids[1] != 'u' {
		t.Errorf("%d ids: %v", len(ids), ids)
	}
	if tok.EOS() != 258 || tok.PAD() != 256 || tok.BOS() != -1 || tok.VocabSize() != 263 {
		t.Errorf("EOS %d, PAD %d, BOS %d, size %d", tok.EOS(), tok.PAD(), tok.BOS(), tok.VocabSize())
	}
	reply := "<think>7+5=12,1+2+1=4</think><answer>42</answer>"
	if got := tok.Decode(tok.Encode(reply+"<|im_end|>", false), true); got != reply {
		t.Errorf("reply reads %q", got)
	}
}
