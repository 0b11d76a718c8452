// Package examples holds configurations with their data, and tests that they learn what they say.
package examples
