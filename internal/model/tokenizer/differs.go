package tokenizer

import "fmt"

// Differs returns a sentence about the lowest id whose token in other differs from t's or is
// missing; "" if there is none. other may have more tokens.
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
