package database

import (
	"database/sql"
	"math"
	"strings"
)

// Text is text as every server takes it: UTF-8 without NUL. What is not is U+FFFD.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Number is a number as every server takes it: NULL is one that is not valid, or not finite.
func Number(v float64, valid bool) sql.NullFloat64 {
	return sql.NullFloat64{Float64: v, Valid: valid && !math.IsNaN(v) && !math.IsInf(v, 0)}
}
