package experience

import (
	"bytes"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestExpertsAreInTheBinaryFormAlone(t *testing.T) {
	e := &trinity.Experience{Tokens: make([]int32, 101), Mask: make([]bool, 101)}
	e.Experts = bytes.Repeat([]byte{3, 9, 0, 200}, 100)
	packed, err := Append(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(packed)
	if err != nil || !bytes.Equal(back.Experts, e.Experts) {
		t.Fatalf("%v, experts %v", err, back)
	}
	without := *e
	without.Experts = nil
	if plain, err := Append(nil, &without); err != nil || len(packed) > len(plain)+100 {
		t.Errorf("%d bytes with experts, %d without, %v", len(packed), len(plain), err)
	}
	if text, err := AppendJSON(nil, e); err != nil || bytes.Contains(text, []byte("xperts")) {
		t.Errorf("JSON: %s, %v", text, err)
	}
	e.Experts = e.Experts[1:]
	if packed, err = Append(nil, e); err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(packed); err == nil || !strings.Contains(err.Error(), "experts of 399 bytes for 101 tokens") {
		t.Errorf("experts that are not whole: %v", err)
	}
}

func TestExpertsOfLargeLayersTakeTwoBytes(t *testing.T) {
	r := Routes{Layers: 1, PerToken: 2, Experts: 300}
	experts := r.Append(r.Append(nil, 299), 7)
	if err := r.Check(experts, 2); err != nil || len(experts) != 4 || r.At(experts, 0) != 299 {
		t.Errorf("%v, %v", experts, err)
	}
	if err := r.Check(r.Append(r.Append(nil, 300), 7), 2); err == nil || !strings.Contains(err.Error(), "expert 300") {
		t.Errorf("%v", err)
	}
}
