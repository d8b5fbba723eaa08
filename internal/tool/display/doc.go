// Package display formats names and numbers for people, shows progress, and writes the HTML
// pages of commands. Names come from clients, so callers must pass each through Clean before they
// print it in a terminal. Tables and plots are in package render.
package display
