// Package display formats names and numbers for people who read them in a terminal. Names
// come from clients, so each goes through Clean.
package display
