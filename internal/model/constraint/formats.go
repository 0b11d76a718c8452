package constraint

import (
	"maps"
	"slices"
	"strings"
)

// formats are patterns for values of format. Each takes valid texts only, and no more than it must for
// a reply: years have four digits, hosts no other letters than ASCII.
var formats = func() map[string]string {
	const (
		leap     = `(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)`
		date     = `(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))|` + leap + `-02-29)`
		time     = `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
		days     = `(\d{1,9}Y(\d{1,9}M(\d{1,9}D)?)?|\d{1,9}M(\d{1,9}D)?|\d{1,9}D)`
		hours    = `(\d{1,9}H(\d{1,9}M(\d{1,9}S)?)?|\d{1,9}M(\d{1,9}S)?|\d{1,9}S)`
		duration = `P(` + days + `(T` + hours + `)?|T` + hours + `|\d{1,9}W)`
		octet    = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
		label    = `[a-z0-9A-Z]([a-z0-9A-Z]{0,61}[a-z0-9A-Z])?`
		host     = label + `(\.` + label + `){0,3}`
		group    = `[0-9a-fA-F]{1,4}`
	)
	of := map[string]string{
		"date":      date,
		"time":      time,
		"date-time": date + `T` + time,
		"duration":  duration,
		"email":     `[a-zA-Z0-9_+-]{1,32}(\.[a-zA-Z0-9_+-]{1,31})?@` + host,
		"hostname":  host,
		"ipv4":      octet + `(\.` + octet + `){3}`,
		"ipv6":      `(` + group + `:){7}` + group,
		"uuid":      `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
		"uri":       `https?://` + host + `(:[1-9]\d{0,3})?(/[a-zA-Z0-9._~-]{0,64}){0,8}(\?[a-zA-Z0-9._~=&-]{0,256})?(#[a-zA-Z0-9._~-]{0,64})?`,
	}
	for name, pattern := range of {
		of[name] = "^(" + pattern + ")$"
	}
	return of
}()

func formatNames() string { return strings.Join(slices.Sorted(maps.Keys(formats)), ", ") }
