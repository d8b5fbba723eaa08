// Package top is `millrace top`: it shows the reports of a server in a terminal. It reads
// /debug/millrace/ with the credentials of a kubeconfig. Package report says what the
// reports mean. Scripts should use -o json, which prints reports as the server sent them.
package top
