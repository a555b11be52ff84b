module everflow/real/gotemplate-diff

go 1.26
