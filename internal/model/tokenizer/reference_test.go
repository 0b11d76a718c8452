package tokenizer

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// families lists the tokenizers whose results testdata/record.py has recorded.
var families = []string{"gpt2", "qwen2", "llama3", "smollm", "o200k", "falcon", "added", "llama2", "mistral", "gemma",
	"metaspace", "undecoded"}

func gunzip(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func family(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := parse(map[string][]byte{definitionFile: gunzip(t, name+".json.gz")})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func referenceTexts(t testing.TB) []string {
	t.Helper()
	data := gunzip(t, "texts.bin.gz")
	var texts []string
	for len(data) > 0 {
		n, size := binary.Uvarint(data)
		data = data[size:]
		texts = append(texts, string(data[:n]))
		data = data[n:]
	}
	return texts
}

func checksum(ids []int32) uint32 {
	var b bytes.Buffer
	for _, id := range ids {
		binary.Write(&b, binary.LittleEndian, id)
	}
	return crc32.ChecksumIEEE(b.Bytes())
}

// randomIDs returns the sequences of record.py's random_ids.
func randomIDs(size int) (all [][]int32) {
	state := uint64(1)
	for i := range 500 {
		ids := make([]int32, 1+i%30)
		for k := range ids {
			state = state*6364136223846793005 + 1442695040888963407
			value := state >> 33
			if value%4 != 0 {
				ids[k] = int32(value / 4 % 300)
			} else {
				ids[k] = int32(value / 4 % uint64(size))
			}
		}
		all = append(all, ids)
	}
	return all
}

func TestTokenizersEqualTheReferences(t *testing.T) {
	texts := referenceTexts(t)
	for _, name := range families {
		t.Run(name, func(t *testing.T) {
			tok := family(t, name)
			checkReferences(t, tok, texts, gunzip(t, name+".ref.gz"))
		})
	}
}

func checkReferences(t *testing.T, tok *Tokenizer, texts []string, want []byte) {
	next := func() uint32 {
		v := binary.LittleEndian.Uint32(want)
		want = want[4:]
		return v
	}
	if n := 4 * (2*len(texts) + 500); len(want) != n {
		t.Fatalf("reference has %d bytes, expected %d", len(want), n)
	}
	badIDs, badTexts := 0, 0
	for _, text := range texts {
		framed, plain, ordinary := tok.Encode(text, true), tok.Encode(text, false), tok.EncodeOrdinary(text)
		all := append(append(append(append(append([]int32{}, framed...), -1), plain...), -1), ordinary...)
		if checksum(all) != next() {
			if badIDs++; badIDs <= 3 {
				t.Errorf("ids of %q differ from the reference: framed %v plain %v ordinary %v", text, framed, plain, ordinary)
			}
		}
		both := tok.Decode(framed, false) + "\x00" + tok.Decode(framed, true)
		if crc32.ChecksumIEEE([]byte(both)) != next() {
			if badTexts++; badTexts <= 3 {
				t.Errorf("text of the ids %v of %q differs from the reference: %q", framed, text, both)
			}
		}
	}
	badRandom := 0
	for _, ids := range randomIDs(tok.VocabSize()) {
		got := tok.Decode(ids, false)
		if crc32.ChecksumIEEE([]byte(got)) != next() {
			if badRandom++; badRandom <= 3 {
				t.Errorf("text of the ids %v differs from the reference: %q", ids, got)
			}
		}
		stream := tok.Stream(false)
		var pieces strings.Builder
		for _, id := range ids {
			pieces.WriteString(stream.Push(id))
		}
		pieces.WriteString(stream.Flush())
		if pieces.String() != got {
			t.Errorf("stream of %v gives %q, Decode %q", ids, pieces.String(), got)
		}
	}
	if bad := badIDs + badTexts + badRandom; bad > 0 {
		t.Errorf("%d wrong ids, %d wrong texts, %d wrong texts of random ids", badIDs, badTexts, badRandom)
	}
}
