package jinja

import (
	"fmt"
	"strings"
	"time"
)

// strftime formats a time as Python's datetime.strftime does in the C locale.
func strftime(r *runtime, format string, t time.Time) Value {
	r.spell(4 * len(format))
	b := r.textWriter()
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.add(format[i : i+1])
			continue
		}
		i++
		unpadded := i < len(format) && format[i] == '-'
		if unpadded {
			i++
		}
		if i >= len(format) {
			panic(failf(Unsupported, "a strftime format that ends within a directive"))
		}
		r.spend(stepsPerDirective)
		part, ok := strftimeDirective(format[i], t)
		if !ok {
			panic(failf(Unsupported, "strftime directive %%%c", format[i]))
		}
		if unpadded {
			if trimmed := strings.TrimLeft(part, "0 "); trimmed != "" {
				part = trimmed
			} else {
				part = part[len(part)-1:]
			}
		}
		b.add(part)
	}
	return b.String()
}

// stepsPerDirective are the steps of a directive, which formats a time.
const stepsPerDirective = 8

// layouts are Go's layouts of directives.
var layouts = map[byte]string{
	'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'y': "06", 'b': "Jan", 'h': "Jan", 'B': "January",
	'a': "Mon", 'A': "Monday", 'p': "PM", 'I': "03", 'e': "_2", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04",
	'D': "01/02/06", 'x': "01/02/06", 'X': "15:04:05", 'c': "Mon Jan _2 15:04:05 2006",
}

func strftimeDirective(c byte, t time.Time) (string, bool) {
	if layout, ok := layouts[c]; ok {
		return t.Format(layout), true
	}
	weekday := int(t.Weekday())
	switch c {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay()), true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'w':
		return fmt.Sprint(weekday), true
	case 'u':
		return fmt.Sprint((weekday+6)%7 + 1), true
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-weekday)/7), true
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(weekday+6)%7)/7), true
	case 'G', 'V':
		year, week := t.ISOWeek()
		if c == 'G' {
			return fmt.Sprint(year), true
		}
		return fmt.Sprintf("%02d", week), true
	case 'Z', 'z': // datetime.now() knows no zone
		return "", true
	}
	return "", false
}
