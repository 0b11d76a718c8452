// Package reward holds the reward functions: rules and models that score one response. A reward
// function is one file, registered under the name that the YAML uses.
package reward
