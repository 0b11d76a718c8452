package tokenizer

import "fmt"

// Differs says in words which id of t, the lowest, is another token in other, or none; "" if other has all of t's. It may have more.
func (t *Tokenizer) Differs(other *Tokenizer) string {
	for i, token := range t.tokens {
		theirs := other.Token(int32(i))
		switch {
		case token == "" || theirs == token:
		case theirs == "":
			return fmt.Sprintf("it has no token %d, %q", i, token)
		default:
			return fmt.Sprintf("its token %d is %q, not %q", i, theirs, token)
		}
	}
	return ""
}
