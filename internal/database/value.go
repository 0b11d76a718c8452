package database

import (
	"database/sql"
	"math"
	"strings"
)

// Text returns text that every server takes: UTF-8 without NUL. U+FFFD replaces the rest.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Number returns a number that every server takes: NULL if v is not valid or not finite.
func Number(v float64, valid bool) sql.NullFloat64 {
	return sql.NullFloat64{Float64: v, Valid: valid && !math.IsNaN(v) && !math.IsInf(v, 0)}
}
