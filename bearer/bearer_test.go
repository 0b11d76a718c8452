package bearer

import (
	"net/http/httptest"
	"testing"
)

func TestHas(t *testing.T) {
	for header, want := range map[string]bool{
		"Bearer secret": true, "": false, "secret": false, "Bearer ": false, "Bearer secre": false, "Bearer secrets": false, "bearer secret": false, "Basic secret": false,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		if got := Has(r, "secret"); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}
