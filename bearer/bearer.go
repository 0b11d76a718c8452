// Package bearer checks the token that a request to one of the servers bears.
package bearer

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// Has reports whether the Authorization header of a request is "Bearer " and the token. Hashes are compared, in constant time, so that the time it takes says
// nothing of the token or its length.
func Has(r *http.Request, token string) bool {
	got, want := sha256.Sum256([]byte(r.Header.Get("Authorization"))), sha256.Sum256([]byte("Bearer "+token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}
