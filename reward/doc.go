// Package reward holds the reward functions: rules that score one response. One file each, registered under the name that the YAML uses.
package reward
