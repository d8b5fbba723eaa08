// Package display formats names and numbers for people, and has the look of the pages that
// commands write. Names come from clients, so each goes through Clean before it is printed in
// a terminal.
package display
