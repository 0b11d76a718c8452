package tokenizer

import "testing"

func TestDiffersNamesTheLowestID(t *testing.T) {
	of := func(tokens ...string) *Tokenizer {
		tok, err := FromVocabulary(Vocabulary{Model: "gpt2", Pre: "gpt-2", Tokens: tokens, BOS: -1, EOS: -1, UNK: -1, PAD: -1})
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	for _, c := range []struct {
		a, b *Tokenizer
		want string
	}{
		{of("a", "b"), of("a", "b"), ""},
		{of("a", "b"), of("a", "b", "c"), ""},
		{of("a", "b"), of("a", "c"), `its token 1 is "c", not "b"`},
		{of("a", "b", "c"), of("a", "b"), `it has no token 2, "c"`},
		{of("a", "b"), of("b", "a"), `its token 0 is "b", not "a"`},
	} {
		if got := c.a.Differs(c.b); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
