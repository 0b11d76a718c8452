// Package safetext makes text safe to show: without control characters, and without secrets.
package safetext

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Printable writes what cannot be printed as in Go, \n or \x1b, so that a file cannot write on a
// terminal.
func Printable(text string) string {
	var b strings.Builder
	for _, c := range text {
		if unicode.IsPrint(c) {
			b.WriteRune(c)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}
	return b.String()
}

var password = regexp.MustCompile(`(\w://[^:/@\s]*):\S*@`)

// option matches a secret among the options of a URL, such as libpq's passwords and services'
// tokens.
var option = regexp.MustCompile(`([?&](?:(?:ssl)?password|(?:access_)?token|api_?key|key|secret)=)[^&\s"]*`)

// argument matches a secret among the arguments of a command, such as --api-key=… and --hf-token ….
var argument = regexp.MustCompile(`(?i)((?:^|[\s"'])--?(?:\w+[-_])*` +
	`(?:(?:api|access|secret)[-_]?key|(?:(?:hf|api|auth|access|bearer|session|bot)[-_])token|-token|password|passwd|secret)(?:=|\s+))` +
	`("[^"]*"|'[^']*'|[^\s"'-][^\s"']*)`)

// Hidden returns text with stars in place of the passwords, tokens and keys of URLs and commands.
func Hidden(text string) string {
	text = option.ReplaceAllString(password.ReplaceAllString(text, "$1:***@"), "$1***")
	return argument.ReplaceAllString(text, "$1***")
}

// HidesAfter reports whether an argument of a command is a secret because of the one before it.
func HidesAfter(before, value string) bool {
	text := before + " " + value
	return Hidden(before) == before && Hidden(value) == value && Hidden(text) != text
}
