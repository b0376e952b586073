"""The guides at ``/guide``: the pages of ``docs/`` that are for users and operators.

mkdocs.yml, docs/*.md ──▶ [pages] ──▶ names, titles, headings ──▶ contents, palette
                             └──▶ [rendering] ──▶ HTML, made once per process ──▶ [views]
"""
