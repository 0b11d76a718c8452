package database

import (
	"fmt"
	"unicode/utf8"
)

// nameLimit bounds the characters of a name in a table. The column has room for a number after it.
const nameLimit = 250

// CheckName returns an error for a name that does not fit its column; MySQL would truncate it
// silently. keys are the configuration keys whose values make up the name.
func CheckName(name, keys string) error {
	if n := utf8.RuneCountInString(name); n > nameLimit {
		return fmt.Errorf("its name in the database, %.60q…, has %d characters, and the tables have room for %d: shorten %s",
			name, n, nameLimit, keys)
	}
	return nil
}
