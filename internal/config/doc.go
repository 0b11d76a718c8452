// Package config reads one YAML file of Trinity-RFT's schema into one [Config]. It resolves
// interpolations, defaults and overrides, checks the result, and reports every mistake with its
// file, line and key. It also plans the run, and writes the JSON schema. It starts nothing and
// writes no files.
//
// The schema is the struct types of this package. A field's tags say everything about its key:
//
//	yaml     the key
//	default  its value if the key is left out or null, as YAML text; without the tag it is the
//	         zero value (for a pointer: not set)
//	enum     the allowed values, separated by |
//	range    the allowed numbers, as an interval: [0,1] (0,1] [1,); see package tags
//	plugin   the kind of plug-in that the value names, looked up in package registry
//	args     the key beside it that names the plug-in whose arguments it holds
//	secret   true for a secret, in place of which stars are shown and kept; see [Mask]
//	auto     how the program computes the key, which a file must not set
//
// The doc comment of a field is its description in the JSON schema and in
// docs/reference/configuration.md.
package config
