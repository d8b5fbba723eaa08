// Package top implements `millrace-tools top`, which shows the reports of a server in a
// terminal. It reads them below /debug/millrace/ with the credentials of a kubeconfig. Package
// serverreport explains the reports.
//
// The text is for people. Scripts should use -o json, which prints the reports as the
// server sent them.
package top
