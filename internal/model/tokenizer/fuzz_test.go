package tokenizer

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzLoad(f *testing.F) {
	f.Add([]byte(small), []byte(`{"bos_token":"<s>","add_bos_token":true}`), "ab<s>")
	f.Add([]byte(`{"model":{"type":"BPE","vocab":{"▁":0,"<0x41>":1,"<unk>":2},"merges":[],"unk_token":"<unk>",`+
		`"byte_fallback":true},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"},"decoder":{"type":"Metaspace",`+
		`"replacement":"▁"}}`), []byte(`{}`), "A b")
	f.Add([]byte(`{"model":{"vocab":{"a":0},"merges":[]},"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},`+
		`{"type":"Replace","pattern":{"Regex":"\\s+"},"content":" "}]}}`), []byte(`{"chat_template":[]}`), "a")
	f.Fuzz(func(t *testing.T, definition, config []byte, text string) {
		tok, err := parse(map[string][]byte{definitionFile: definition, configFile: config})
		if err != nil {
			return
		}
		for _, id := range tok.Encode(text, true) {
			if !tok.has(id) {
				t.Fatalf("%q gives id %d, which has no token", text, id)
			}
		}
		tok.Decode(tok.EncodeOrdinary(text), true)
	})
}

// A byte-level tokenizer without a normalizer returns every text unchanged, for both ways to merge
// its words.
func FuzzEncodeDecode(f *testing.F) {
	for _, text := range referenceTexts(f)[:80] {
		f.Add(text)
	}
	var all []*Tokenizer
	for _, name := range []string{"gpt2", "llama3", "smollm", "o200k"} {
		all = append(all, family(f, name))
	}
	llama2 := family(f, "llama2")
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range all {
			for _, ids := range [][]int32{tok.Encode(text, false), tok.EncodeOrdinary(text)} {
				if strings.Contains(text, "<mask>") {
					continue // lstrip: the token includes the spaces before it
				}
				if got := tok.Decode(ids, false); got != validUTF8(text) {
					t.Fatalf("%q comes back as %q", text, got)
				}
			}
		}
		for _, tok := range append(all, llama2) {
			short := tok.model.symbols(nil, validUTF8(text))
			if len(short) > scanLongest || len(short) == 0 {
				continue
			}
			long := slices.Clone(short)
			short, long = short[:tok.model.mergeShort(short)], long[:tok.model.mergeLong(long)]
			if !slices.Equal(short, long) {
				t.Fatalf("%q: scanning merges to %v, the heap to %v", text, short, long)
			}
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add([]byte{0, 1, 0, 5, 1, 200, 0, 255}, true)
	f.Add([]byte("\x00\xe4\x00\xbd\x00\xa0\x00 \x01\x01"), false)
	var all []*Tokenizer
	for _, name := range families {
		all = append(all, family(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte, skip bool) {
		var ids []int32
		for ; len(data) > 1; data = data[2:] {
			ids = append(ids, int32(binary.BigEndian.Uint16(data)%3100))
		}
		for i, tok := range all {
			var joined strings.Builder
			stream := tok.Stream(skip)
			for _, id := range ids {
				piece := stream.Push(id)
				if !utf8.ValidString(piece) {
					t.Fatalf("%s: piece %q splits a code point", families[i], piece)
				}
				joined.WriteString(piece)
			}
			joined.WriteString(stream.Flush())
			if want := tok.Decode(ids, skip); joined.String() != want {
				t.Fatalf("%s: the pieces of %v give %q, Decode %q", families[i], ids, joined.String(), want)
			}
		}
	})
}
