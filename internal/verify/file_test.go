package verify

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/wire/openai"
)

func TestDecodeRecords(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name, text string
		want       Record
	}{
		{"score", `{"tokens":[3,4],"logprobs":[null,-1],"entropy":[1,2]}`, Record{Tokens: []int32{3, 4}, Logprobs: []float64{nan, -1}}},
		{"generate", `{"prompt_tokens":[3],"tokens":[4],"logprobs":[-1],"text":"x"}`,
			Record{Tokens: []int32{3, 4}, Logprobs: []float64{nan, -1}}},
		{"generate at a temperature", `{"prompt_tokens":[3],"tokens":[4],"logprobs":[-1],"temperature":0.5}`,
			Record{Tokens: []int32{3, 4}, Logprobs: []float64{nan, -1}, PromptLen: 1, Temperature: 0.5}},
		{"experience", `{"id":{"step":1},"tokens":[3,4,5],"mask":[false,true,false],"logprobs":[0,-1,0],"prompt_len":1,"temperature":0.5}`,
			Record{Tokens: []int32{3, 4, 5}, Mask: []bool{false, true, false}, Logprobs: []float64{nan, -1, nan}, PromptLen: 1, Temperature: 0.5}},
		{"experience of a run", `{"tokens":[3,4],"mask":[false,true],"logprobs":[0,-1],"prompt_len":1,"temperature":0.5,"versions":[2,2]}`,
			Record{Tokens: []int32{3, 4}, Mask: []bool{false, true}, Logprobs: []float64{nan, -1}, PromptLen: 1, Temperature: 0.5, Selected: true}},
		{"greedy", `{"tokens":[3,4],"prompt_len":1,"temperature":0}`, Record{Tokens: []int32{3, 4}}},
		{"group", `[{"tokens":[3,4],"mask":[false,true],"prompt_len":1,"temperature":0}]`,
			Record{Tokens: []int32{3, 4}, Mask: []bool{false, true}}},
		{"expert", `{"tokens":[3,4],"mask":[false,true],"logprobs":[0,-1],"prompt_len":1,"is_expert":true}`,
			Record{Tokens: []int32{3, 4}, Mask: []bool{false, true}, Logprobs: []float64{nan, -1}}},
		{"draws", "\n" + `{"tokens":[3,4],"prompt_len":1,"top_p":0.5}`, Record{Tokens: []int32{3, 4}, PromptLen: 1, TopP: 0.5}},
		{"best", `{"tokens":[3,4],"best":[null,7]}`, Record{Tokens: []int32{3, 4}, Best: []int32{-1, 7}}},
	} {
		got, err := decodeRecords(strings.NewReader(c.text), "f")
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v, %d records", c.name, err, len(got))
			continue
		}
		c.want.Place = got[0].Place
		if fmt.Sprintf("%+v", *got[0]) != fmt.Sprintf("%+v", c.want) || !strings.HasPrefix(got[0].Place, "f:") {
			t.Errorf("%s: %+v, want %+v", c.name, *got[0], c.want)
		}
	}
}

func TestReadRecordsRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadRecords(dir); err == nil || !strings.Contains(err.Error(), "holds no file *.jsonl") {
		t.Errorf("empty directory: %v", err)
	}
	path := filepath.Join(dir, "a.jsonl")
	for text, want := range map[string]string{
		"":                                "holds no records",
		"\n{\"text\":\"a\"}":              `a.jsonl:2: there is no "tokens"`,
		`{"tokens":"a"}`:                  `a.jsonl:1: "tokens" is a JSON string`,
		`{"tokens":[1,2]`:                 "a.jsonl:1: unexpected end",
		`{"tokens":[1,2],"logprobs":[1]}`: "1 logprobs for 2 tokens",
		`{"prompt_tokens":[1],"tokens":[2],"logprobs":[1,2]}`: "2 logprobs for 1 tokens",
		`{"tokens":[1,2],"prompt_len":-1}`:                    "prompt_len is -1",
		`{"tokens":[1,2],"mask":[true]}`:                      "a mask of 1",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRecords(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func FuzzDecodeRecords(f *testing.F) {
	f.Add([]byte(`{"tokens":[3,4],"logprobs":[null,-1],"best":[null,2],"prompt_len":1,"temperature":1,"mask":[false,true]}`))
	f.Add([]byte(`[{"prompt_tokens":[1],"tokens":[4],"logprobs":[-1],"temperature":0.5}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := decodeRecords(strings.NewReader(string(data)), "f")
		if err != nil {
			return
		}
		for _, r := range records {
			for i := range r.Tokens {
				_ = r.compares(i)
			}
			if err := r.check(); err != nil {
				t.Error(err)
			}
		}
	})
}

func FuzzCompletion(f *testing.F) {
	f.Add([]byte(`{"choices":[{"text":"a","token_ids":[1],"logprobs":{"tokens":["token_id:1"],"token_logprobs":[null]},` +
		`"prompt_logprobs":[null,{"4":{"logprob":-1,"rank":1}}]}]}`))
	f.Add([]byte(`{"choices":[{"logprobs":{"content":[{"id":3,"token":"a","logprob":-1}]},"sglext":{"output_ids":[3]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r openai.Response
		if json.Unmarshal(data, &r) != nil {
			return
		}
		for _, c := range r.Choices {
			if p, err := c.Sampled(); err == nil && p.Names != nil && p.IDs != nil && len(p.IDs) != len(p.Logprobs) {
				t.Errorf("%d ids, %d logprobs", len(p.IDs), len(p.Logprobs))
			}
			logprobs, best, err := scored([]int32{3, 4}, c.PromptLogprobs)
			if err == nil && (len(logprobs) != 2 || len(best) != 2 || slices.Min(best) < -1) {
				t.Errorf("%v %v", logprobs, best)
			}
		}
	})
}
