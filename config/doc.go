// Package config reads one YAML file of Trinity-RFT's schema into one [Config]: interpolation, defaults, overrides, checks with the file,
// line and key of everything that is wrong, the plan of the run, and the JSON schema of it all. It starts nothing and writes nothing.
//
// The schema is the struct types of this package. A field's tags say everything about its key:
//
//	yaml     the key
//	default  its value when the key is left out or null, as YAML text; absent means the zero value (for a pointer: not set)
//	enum     the values allowed, separated by |
//	range    the numbers allowed, as an interval: [0,1] (0,1] [1,)
//	plugin   the kind of plug-in that the value names, looked up in package registry
//	auto     the key is computed as the tag says and must not be set
//
// The doc comment of a field is its description in the JSON schema and in docs/reference/configuration.md.
package config
