package database

import (
	"fmt"
	"unicode/utf8"
)

// nameLimit is how many characters a name in a table may have; the column has some more, for a number behind it.
const nameLimit = 250

// CheckName refuses a name that tables have no room for, and MySQL would cut off without a word. It is made of the values of keys.
func CheckName(name, keys string) error {
	if n := utf8.RuneCountInString(name); n > nameLimit {
		return fmt.Errorf("its name in the database, %.60q…, has %d characters, and the tables have room for %d: shorten %s", name, n, nameLimit, keys)
	}
	return nil
}
