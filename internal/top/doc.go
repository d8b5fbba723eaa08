// Package top is `millrace top`: the reports of a server, in a terminal. It reads
// /debug/millrace/ with the credentials of a kubeconfig and knows of the server what
// package slo says. It is not for scripts, but for -o json, which hands on what the
// server said.
package top
